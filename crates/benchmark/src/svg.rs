//! A drawing as SVG: the few shapes that plots need, each a line of text.
//!
//! The output is well-formed for any text: characters with a meaning in XML are escaped, and forbidden ones are
//! replaced.

use std::fmt::Write;

/// A drawing under way.
#[derive(Debug)]
pub struct Svg {
    text: String,
}

/// Side of its point on which a text lies.
#[derive(Clone, Copy, Debug)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    /// Begins a drawing. `style` is CSS; `title` and `description` are for screen readers.
    pub fn new((width, height): (u32, u32), style: &str, title: &str, description: &str) -> Svg {
        let text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" role=\"img\">\n<title>{}</title>\n<desc>{}</desc>\n<style>\n{style}</style>\n",
            escaped(title),
            escaped(description)
        );
        Svg { text }
    }

    pub fn line(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.put(format_args!("<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"));
    }

    pub fn polyline(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.put(format_args!("<polyline class=\"{class}\" points=\"{}\"/>", points.join(" ")));
    }

    pub fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.put(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escaped(text)
        ));
    }

    /// Returns the whole file.
    pub fn finish(self) -> String {
        self.text + "</svg>\n"
    }

    fn put(&mut self, shape: std::fmt::Arguments<'_>) {
        // Writing into a string cannot fail.
        let _ = writeln!(self.text, "{shape}");
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(' '),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// Returns whether `text` is one element in which every tag is closed, every attribute quoted and every reference
/// known.
#[cfg(test)]
pub fn is_well_formed(text: &str) -> bool {
    let (mut open, mut rest, mut roots) = (Vec::new(), text, 0);
    while let Some(at) = rest.find('<') {
        let (before, behind) = rest.split_at(at);
        let references = before.split('&').skip(1);
        let known = |text: &str| ["amp;", "lt;", "gt;", "quot;"].iter().any(|name| text.starts_with(name));
        if before.contains('>') || !references.into_iter().all(known) || (open.is_empty() && !before.trim().is_empty())
        {
            return false;
        }
        let Some(end) = behind.find('>') else { return false };
        let tag = &behind[1..end];
        rest = &behind[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return false;
            }
            continue;
        }
        let name = tag.split([' ', '/']).next().unwrap_or_default();
        if name.is_empty() || tag.matches('"').count() % 2 != 0 || tag.contains('<') {
            return false;
        }
        roots += u32::from(open.is_empty());
        if !tag.ends_with('/') {
            open.push(name);
        }
    }
    open.is_empty() && roots == 1 && rest.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_is_well_formed_for_all_texts() {
        let odd = "a<b>&\"c\" \0\u{1b}\n\u{ffff}é";
        let mut svg = Svg::new((10, 20), "line { stroke: red; }\n", odd, odd);
        svg.line("axis", (0.0, 1.0), (2.25, 3.0));
        svg.polyline("series", &[(0.0, 0.04), (1.0, 2.0)]);
        svg.polyline("empty", &[]);
        svg.text("label", (1.0, 1.0), Anchor::End, odd);
        let text = svg.finish();
        assert!(is_well_formed(&text), "{text}");
        assert!(text.contains("<polyline class=\"series\" points=\"0.0,0.0 1.0,2.0\"/>\n"));
        assert!(text.contains(">a&lt;b&gt;&amp;&quot;c&quot; \u{fffd}\u{fffd} \u{fffd}é</text>\n"), "{text}");
    }

    #[test]
    fn a_malformed_drawing_is_noticed() {
        for text in ["", "<a>", "<a></b>", "<a/><b/>", "<a>&</a>", "<a b=\"></a>", "<a>x > y</a>", "x<a/>", "<a/>x"] {
            assert!(!is_well_formed(text), "{text}");
        }
        assert!(is_well_formed("<a b=\"c\"><d/>&amp;</a>\n"));
    }
}
