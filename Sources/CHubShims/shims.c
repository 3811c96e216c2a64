#include "CHubShims.h"
