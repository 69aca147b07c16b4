//! Addresses: which belong to the public internet, and what the others are. IPv6 is denied by default: only global
//! unicast can be public, and an IPv4 address inside one is judged as itself.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

/// Why an address is not of the public internet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Unspecified,
    Loopback,
    Private,
    /// Also where clouds serve their instance's credentials.
    LinkLocal,
    /// Behind a carrier's address translation.
    Shared,
    Multicast,
    Broadcast,
    Documentation,
    /// A cloud's own services at an address that looks public.
    Platform,
    Reserved,
}

impl Class {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unspecified => "unspecified",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Shared => "shared",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Documentation => "documentation",
            Self::Platform => "cloud platform",
            Self::Reserved => "reserved",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// None for an address of the public internet.
pub fn classify(address: IpAddr) -> Option<Class> {
    match address {
        IpAddr::V4(v4) => classify_v4(v4),
        IpAddr::V6(v6) => classify_v6(v6),
    }
}

fn classify_v4(v4: Ipv4Addr) -> Option<Class> {
    Some(match v4.octets() {
        [0, ..] => Class::Unspecified,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Class::Private,
        [100, 64..=127, ..] => Class::Shared,
        [127, ..] => Class::Loopback,
        [169, 254, ..] => Class::LinkLocal,
        // Azure's agent answers here with an instance's certificates and secrets.
        [168, 63, 129, 16] => Class::Platform,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Class::Documentation,
        // Protocol assignments, the 6to4 relays that are no more, and benchmarks.
        [192, 0, 0, _] | [192, 88, 99, _] | [198, 18..=19, ..] => Class::Reserved,
        [224..=239, ..] => Class::Multicast,
        [255, 255, 255, 255] => Class::Broadcast,
        [240..=255, ..] => Class::Reserved,
        _ => return None,
    })
}

fn classify_v6(v6: Ipv6Addr) -> Option<Class> {
    let within = |prefix: &[u16]| v6.segments().starts_with(prefix);
    let [.., high, low] = v6.segments();
    Some(match v6.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Class::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        // IPv4-mapped, and translated by NAT64.
        _ if within(&[0, 0, 0, 0, 0, 0xffff]) => return classify_v4(embedded(high, low)),
        _ if within(&[0x64, 0xff9b, 0, 0, 0, 0]) => return classify_v4(embedded(high, low)),
        // 6to4.
        [0x2002, high, low, ..] => return classify_v4(embedded(high, low)),
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Class::Documentation,
        // Protocol assignments, among them Teredo, which hides an IPv4 address.
        [0x2001, 0..=0x01ff, ..] => Class::Reserved,
        [0x2000..=0x3fff, ..] => return None,
        [0xfc00..=0xfdff, ..] => Class::Private,
        [0xfe80..=0xfebf, ..] => Class::LinkLocal,
        [0xff00..=0xffff, ..] => Class::Multicast,
        _ => Class::Reserved,
    })
}

fn embedded(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from((u32::from(high) << 16) | u32::from(low))
}

/// A range of addresses: `10.0.0.0/8`, or one address alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    base: IpAddr,
    bits: u8,
}

impl Cidr {
    /// An IPv4 address is in a range of IPv4 however it is written.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.base, address.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(v4)) => {
                let shift = 32 - u32::from(self.bits);
                (u32::from(base) ^ u32::from(v4)).checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V6(base), IpAddr::V6(v6)) => {
                let shift = 128 - u32::from(self.bits);
                (u128::from(base) ^ u128::from(v6)).checked_shr(shift).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a range of addresses such as 10.0.0.0/8 or fd00::/8")]
pub struct CidrError(String);

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let parse = || {
            let (base, bits) = match text.split_once('/') {
                Some((base, bits)) => (base.parse::<IpAddr>().ok()?, Some(bits.parse::<u8>().ok()?)),
                None => (text.parse::<IpAddr>().ok()?, None),
            };
            let most = if base.is_ipv4() { 32 } else { 128 };
            let bits = bits.unwrap_or(most);
            (bits <= most).then_some(Self { base, bits })
        };
        parse().ok_or_else(|| CidrError(text.to_owned()))
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn class(text: &str) -> Option<Class> {
        classify(text.parse().unwrap())
    }

    #[test]
    fn addresses_of_the_public_internet_pass() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2002:808:808::1",
        ] {
            assert_eq!(class(text), None, "{text}");
        }
    }

    #[test]
    fn every_other_address_is_told_by_its_class() {
        for (text, expected) in [
            ("0.0.0.0", Class::Unspecified),
            ("0.1.2.3", Class::Unspecified),
            ("10.0.0.0", Class::Private),
            ("10.255.255.255", Class::Private),
            ("172.16.0.1", Class::Private),
            ("172.31.255.255", Class::Private),
            ("192.168.1.1", Class::Private),
            ("100.64.0.0", Class::Shared),
            ("100.100.100.200", Class::Shared),
            ("127.0.0.1", Class::Loopback),
            ("127.255.255.254", Class::Loopback),
            ("169.254.169.254", Class::LinkLocal),
            ("168.63.129.16", Class::Platform),
            ("192.0.0.192", Class::Reserved),
            ("192.0.2.1", Class::Documentation),
            ("198.51.100.1", Class::Documentation),
            ("203.0.113.1", Class::Documentation),
            ("192.88.99.1", Class::Reserved),
            ("198.18.0.1", Class::Reserved),
            ("224.0.0.1", Class::Multicast),
            ("239.255.255.255", Class::Multicast),
            ("240.0.0.1", Class::Reserved),
            ("255.255.255.255", Class::Broadcast),
            ("::", Class::Unspecified),
            ("::1", Class::Loopback),
            ("::127.0.0.1", Class::Reserved),
            ("::ffff:127.0.0.1", Class::Loopback),
            ("::ffff:169.254.169.254", Class::LinkLocal),
            ("::ffff:0:127.0.0.1", Class::Reserved),
            ("64:ff9b::10.0.0.1", Class::Private),
            ("64:ff9b:1::8.8.8.8", Class::Reserved),
            ("100::1", Class::Reserved),
            ("2001::1", Class::Reserved),
            ("2001:db8::1", Class::Documentation),
            ("3fff::1", Class::Documentation),
            ("2002:7f00:1::1", Class::Loopback),
            ("2002:c0a8:101::1", Class::Private),
            ("fc00::1", Class::Private),
            ("fd00:ec2::254", Class::Private),
            ("fe80::1", Class::LinkLocal),
            ("fec0::1", Class::Reserved),
            ("ff02::1", Class::Multicast),
        ] {
            assert_eq!(class(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn a_range_holds_its_addresses_and_no_other() {
        let cidr = |text: &str| text.parse::<Cidr>().unwrap();
        for (range, inside, outside) in [
            ("127.0.0.0/8", "127.255.0.1", "128.0.0.1"),
            ("10.1.2.3", "10.1.2.3", "10.1.2.4"),
            ("10.1.2.3/31", "10.1.2.2", "10.1.2.4"),
            ("0.0.0.0/0", "8.8.8.8", "::1"),
            ("::/0", "fd00::1", "8.8.8.8"),
            ("fd00::/8", "fdff::1", "fc00::1"),
            ("127.0.0.0/8", "::ffff:127.0.0.1", "::1"),
        ] {
            assert!(cidr(range).contains(inside.parse().unwrap()), "{range} {inside}");
            assert!(!cidr(range).contains(outside.parse().unwrap()), "{range} {outside}");
        }
        for bad in ["", "/8", "10.0.0.0/33", "::/129", "10.0.0/8", "a/8", "10.0.0.0/", "10.0.0.0/-1"] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_way_of_embedding_an_address_changes_what_it_is(bits: u32) {
            let v4 = Ipv4Addr::from(bits);
            let [high, low] = [(bits >> 16) as u16, bits as u16];
            for v6 in [
                v4.to_ipv6_mapped(),
                Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
                Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
            ] {
                prop_assert_eq!(classify(v6.into()), classify(v4.into()), "{}", v6);
            }
        }

        #[test]
        fn what_the_standard_library_knows_as_local_never_passes(bits: u32) {
            let v4 = Ipv4Addr::from(bits);
            let local = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_broadcast()
                || v4.is_documentation() || v4.is_multicast() || v4.is_unspecified();
            prop_assert!(!local || classify(v4.into()).is_some(), "{}", v4);
        }

        #[test]
        fn only_global_unicast_and_translations_pass_of_ipv6(bits: u128) {
            let v6 = Ipv6Addr::from(bits);
            let global = v6.segments()[0] >> 13 == 1;
            let translated = v6.to_ipv4_mapped().is_some() || v6.segments().starts_with(&[0x64, 0xff9b, 0, 0, 0, 0]);
            prop_assert!(classify(v6.into()).is_some() || global || translated, "{}", v6);
        }

        #[test]
        fn a_range_is_read_as_it_is_shown(bits: u128, v6: bool, prefix in 0u8..=128) {
            let base: IpAddr =
                if v6 { Ipv6Addr::from(bits).into() } else { Ipv4Addr::from(bits as u32).into() };
            let prefix = if v6 { prefix } else { prefix.min(32) };
            let cidr: Cidr = format!("{base}/{prefix}").parse().unwrap();
            prop_assert_eq!(cidr.to_string().parse::<Cidr>(), Ok(cidr));
            prop_assert!(cidr.contains(base) || base.to_canonical() != base);
        }
    }
}
