//! [`SubpixelText`]: a bitmap backend of plotters that places each letter at the fraction of a pixel that its font asks for;
//! plotters rounds to whole pixels and leaves out the side bearing.

use ab_glyph::{Font, FontRef, ScaleFont, point};
use plotters::prelude::{BitMapBackend, DrawingBackend};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind,
    text_anchor::{HPos, VPos},
};

/// Draws everything but letters as the library does.
pub(super) struct SubpixelText<'a> {
    pub(super) inner: BitMapBackend<'a>,
    pub(super) font: FontRef<'static>,
}

type Drawn = Result<(), DrawingErrorKind<<BitMapBackend<'static> as DrawingBackend>::ErrorType>>;

impl DrawingBackend for SubpixelText<'_> {
    type ErrorType = <BitMapBackend<'static> as DrawingBackend>::ErrorType;

    fn get_size(&self) -> (u32, u32) {
        self.inner.get_size()
    }

    fn ensure_prepared(&mut self) -> Drawn {
        self.inner.ensure_prepared()
    }

    fn present(&mut self) -> Drawn {
        self.inner.present()
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn {
        self.inner.draw_pixel(point, color)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.inner.draw_line(from, to, style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        self.inner.draw_rect(upper_left, bottom_right, style, fill)
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, at: BackendCoord) -> Drawn {
        let ((left, top), (right, bottom)) =
            style.layout_box(text).map_err(|error| DrawingErrorKind::FontError(Box::new(error)))?;
        let dx = match style.anchor().h_pos {
            HPos::Left => 0,
            HPos::Center => (left - right) / 2,
            HPos::Right => left - right,
        };
        let dy = match style.anchor().v_pos {
            VPos::Top => 0,
            VPos::Center => (top - bottom) / 2,
            VPos::Bottom => top - bottom,
        };
        #[expect(clippy::cast_possible_truncation, reason = "pixels of a letter")]
        let size = style.size() as f32;
        let font = self.font.as_scaled(size);
        let (mut letters, mut x, mut before) = (Vec::new(), 0.0, None);
        for letter in text.chars() {
            let mut glyph = font.scaled_glyph(letter);
            x += before.map_or(0.0, |before| font.kern(before, glyph.id));
            glyph.position = point(x, size / 2.0);
            (x, before) = (x + font.h_advance(glyph.id), Some(glyph.id));
            letters.extend(font.outline_glyph(glyph));
        }
        let ((wide, high), color, turn) = (self.get_size(), style.color(), style.transform());
        let is_within = |at: i32, end: u32| u32::try_from(at).is_ok_and(|at| at < end);
        for letter in letters {
            let (begin, mut drawn) = (letter.px_bounds().min, Ok(()));
            letter.draw(|x, y, cover| {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_possible_wrap,
                    reason = "pixels of a letter"
                )]
                let (x, y) = (x as i32 + begin.x as i32, y as i32 + begin.y as i32);
                let (x, y) = turn.transform(x + dx - left, y + dy - top);
                let (x, y) = (at.0 + x, at.1 + y);
                if drawn.is_ok() && is_within(x, wide) && is_within(y, high) {
                    drawn = self.inner.draw_pixel((x, y), color.mix(f64::from(cover)));
                }
            });
            drawn?;
        }
        Ok(())
    }
}
