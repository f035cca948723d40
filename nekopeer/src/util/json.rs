//! Values in JSON: whole numbers, since JSON has one kind of number and 13.0 is as whole as 13; and the words of
//! command-line flags.

use nekoproto::limits::{TTL_DEFAULT, TTL_MAX};
use serde::{Deserialize, Deserializer, de::Error};

/// Reads a whole number of at most 32 bits, or null.
pub(crate) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let Some(number) = Option::<f64>::deserialize(from)? else { return Ok(None) };
    if number.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&number) {
        return Err(D::Error::custom(format!("{number} is not a whole number from 0 to {}", u32::MAX)));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok(Some(number as u32))
}

/// Reads hops beyond the own indexers.
pub(crate) fn ttl_or_default<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    let ttl = whole(from)?.map_or(Some(TTL_DEFAULT), |ttl| u8::try_from(ttl).ok());
    let wrong = || D::Error::custom(format!("it is a number from 0 to {TTL_MAX}"));
    ttl.filter(|ttl| *ttl <= TTL_MAX).ok_or_else(wrong)
}

/// Hops beyond the own indexers, where nothing is said.
pub(crate) const fn ttl_default() -> u8 {
    TTL_DEFAULT
}

/// Values as the words of their command-line flags.
pub(crate) mod text {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    pub(crate) fn serialize<T: Display, S: Serializer>(value: &Option<T>, to: S) -> Result<S::Ok, S::Error> {
        value.as_ref().map(ToString::to_string).serialize(to)
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<Option<T>, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        let text = Option::<String>::deserialize(from)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
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
