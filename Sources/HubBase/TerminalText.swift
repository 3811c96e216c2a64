extension Unicode.Scalar {
    /// Fit for a terminal or a log: neither a control character nor one that formats (turns the direction of text, or can't be seen at all), nor
    /// an end of line. Names that look alike but for those must not be taken for one another.
    package var isPlain: Bool {
        switch properties.generalCategory {
        case .control, .format, .lineSeparator, .paragraphSeparator: false
        default: true
        }
    }
}
