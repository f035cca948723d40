//! Draws a text as a QR code: as SVG for a page, as half blocks for a terminal.

use qrcode::{
    EcLevel, QrCode,
    render::{svg, unicode::Dense1x2},
    types::QrError,
};

/// Side of an SVG in CSS pixels, at least. A page scales it.
const SVG_SIDE_MIN: u32 = 240;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QrFormat {
    /// An SVG document: black on white, with a margin of 4 modules.
    Svg,
    /// Lines of half blocks, two rows of modules each, with a margin of 4 modules. Light modules are blocks, so that a
    /// terminal with light text on a dark background shows a dark code on a light ground.
    Terminal,
}

/// Draws `text`.
///
/// # Errors
/// The text is longer than a QR code holds: 2953 bytes.
pub(crate) fn draw(text: &str, format: QrFormat) -> Result<String, QrError> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L)?; // the fewest modules: a screen is not damaged
    Ok(match format {
        QrFormat::Svg => code.render::<svg::Color<'_>>().min_dimensions(SVG_SIDE_MIN, SVG_SIDE_MIN).build(),
        QrFormat::Terminal => {
            code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(Dense1x2::Dark).build()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a scanner reads in an image of `side` modules; `is_dark` tells the modules.
    fn scanned(side: usize, is_dark: impl Fn(usize, usize) -> bool) -> String {
        const PIXELS: usize = 4; // of a module
        let mut image = rqrr::PreparedImage::prepare_from_greyscale(side * PIXELS, side * PIXELS, |x, y| {
            if is_dark(x / PIXELS, y / PIXELS) { 0 } else { 255 }
        });
        image.detect_grids()[0].decode().unwrap().1
    }

    #[test]
    fn a_scanner_reads_the_text_in_both_formats() {
        for text in ["neko:a".to_owned(), format!("neko:{}", "b7".repeat(300))] {
            let lines = draw(&text, QrFormat::Terminal).unwrap();
            let lines: Vec<Vec<char>> = lines.lines().map(|line| line.chars().collect()).collect();
            let side = lines[0].len();
            let is_dark = |x: usize, y: usize| {
                let lit = lines[y / 2].get(x).copied().unwrap_or(' ');
                !matches!((lit, y % 2), ('\u{2588}', _) | ('\u{2580}', 0) | ('\u{2584}', 1))
            };
            assert_eq!(scanned(side, is_dark), text);
            // The path of the SVG has a square `Mx yhSvSH..` for each dark module.
            let svg = draw(&text, QrFormat::Svg).unwrap();
            let path = svg.split(" d=\"").nth(1).unwrap().split('"').next().unwrap();
            let squares: Vec<(usize, usize)> = path
                .split('M')
                .skip(1)
                .map(|square| {
                    let (at, _) = square.split_once('h').unwrap();
                    let (x, y) = at.split_once([' ', ',']).unwrap();
                    (x.parse().unwrap(), y.parse().unwrap())
                })
                .collect();
            let step = path.split_once('h').unwrap().1.split(|c: char| !c.is_ascii_digit()).next().unwrap();
            let step: usize = step.parse().unwrap();
            let dark: std::collections::HashSet<_> =
                squares.iter().map(|(x, y)| (x / step, y / step)).collect();
            assert_eq!(scanned(side, |x, y| dark.contains(&(x, y))), text);
        }
    }

    #[test]
    fn a_text_that_no_code_holds_is_refused() {
        assert!(draw(&"a".repeat(2953), QrFormat::Svg).is_ok());
        assert_eq!(draw(&"a".repeat(2954), QrFormat::Svg), Err(QrError::DataTooLong));
    }
}
