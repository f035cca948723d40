//! Values in JSON: whole numbers, since JSON has one kind of number and 13.0 is as whole as 13; and the words of
//! command-line flags.

use nekoproto::{
    Version,
    limits::{TTL_DEFAULT, TTL_MAX},
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error},
};

/// The largest whole number that every program reads exactly: 2^53 - 1.
const EXACT_MAX: u64 = (1 << 53) - 1;

/// `number`, if it is a whole one of at most `most`.
fn checked<E: Error>(number: f64, most: u64) -> Result<u64, E> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a negative one becomes 0")]
    let whole = number as u64;
    let is_whole = number >= 0.0 && number.fract() == 0.0 && whole <= most;
    is_whole
        .then_some(whole)
        .ok_or_else(|| E::custom(format!("{number} is not a whole number from 0 to {most}")))
}

/// Reads a whole number of at most 32 bits, or null.
pub(crate) fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let Some(number) = Option::deserialize(from)? else { return Ok(None) };
    checked(number, u32::MAX.into()).map(|number| u32::try_from(number).ok())
}

/// As [`whole`], of at most 2^53 - 1.
pub(crate) fn large<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Option::deserialize(from)?.map(|number| checked(number, EXACT_MAX)).transpose()
}

/// Reads a version, from 1 on.
pub(crate) fn version<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Version>, D::Error> {
    let number = large(from)?;
    let version = number.map(|number| Version::new(number).ok_or("versions count from 1"));
    version.transpose().map_err(D::Error::custom)
}

/// Reads an object, and no array of its fields.
pub(crate) fn object<'de, T: DeserializeOwned, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let fields = serde_json::Map::deserialize(from)?;
    T::deserialize(serde_json::Value::Object(fields)).map_err(D::Error::custom)
}

/// Reads hops beyond the own indexers.
pub(crate) fn ttl<'de, D: Deserializer<'de>>(from: D) -> Result<u8, D::Error> {
    let number = checked(f64::deserialize(from)?, TTL_MAX.into())?;
    u8::try_from(number).map_err(D::Error::custom)
}

/// Hops beyond the own indexers, where nothing is said.
pub(crate) const fn ttl_default() -> u8 {
    TTL_DEFAULT
}

pub(crate) mod text {
    use std::{fmt::Display, str::FromStr};

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(value: &impl Display, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(crate) fn deserialize<'de, T, D>(from: D) -> Result<T, D::Error>
    where
        T: FromStr<Err: Display>,
        D: Deserializer<'de>,
    {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }

    /// Those that may be left out.
    pub(crate) mod maybe {
        use super::{Deserialize, Deserializer, Display, Error, FromStr, Serializer};

        pub(crate) fn serialize<S: Serializer>(
            value: &Option<impl Display>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match value {
                Some(value) => to.collect_str(value),
                None => to.serialize_none(),
            }
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
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn whole_numbers_are_read_in_each_form_and_others_are_not() {
        let read = |text: &str| whole(&mut serde_json::Deserializer::from_str(text)).ok();
        let numbers = [Some(Some(13)), Some(Some(13)), Some(None), Some(Some(0))];
        assert_eq!(["13", "13.0", "null", "0"].map(read), numbers);
        assert_eq!(["13.5", "-1", "4294967296", "1e300", "\"1\"", "true"].map(read), [None; 6]);
    }
}
