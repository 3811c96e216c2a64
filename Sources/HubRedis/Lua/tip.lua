-- Where a channel stands that has no record. Follows chain.lua. KEYS: as for history. ARGV: 1 new generation
-- Reply: {epoch, offset, tag}
return {tip.epoch, text(tip.offset), tip.tag}
