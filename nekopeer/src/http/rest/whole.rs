//! Whole numbers in bodies: JSON has one kind of number, and 13.0 is as whole as 13.

use serde::{Deserialize, Deserializer, de::Error};

/// Reads a whole number of at most 32 bits, or null.
pub(super) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let Some(number) = Option::<f64>::deserialize(from)? else { return Ok(None) };
    if number.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&number) {
        return Err(D::Error::custom(format!("{number} is not a whole number from 0 to {}", u32::MAX)));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok(Some(number as u32))
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn whole_numbers_are_read_in_each_form_and_others_are_not() {
        let read = |text: &str| whole(&mut serde_json::Deserializer::from_str(text)).ok();
        assert_eq!(
            ["13", "13.0", "null", "0"].map(read),
            [Some(Some(13)), Some(Some(13)), Some(None), Some(Some(0))]
        );
        assert_eq!(["13.5", "-1", "4294967296", "1e300", "\"1\"", "true"].map(read), [None; 6]);
    }
}
