//! The networks that an address belongs to. A host with IPv6 has a whole /64, a customer often a /56, and an
//! organization a /48: a limit per address would be ineffective.

use std::net::IpAddr;

/// From the narrowest to the widest. An IPv4 address is one network.
pub(super) fn networks(address: Option<&str>) -> Vec<String> {
    let address = address.unwrap_or("local");
    match address.parse() {
        Ok(IpAddr::V6(six)) => match six.to_ipv4_mapped() {
            Some(four) => vec![four.to_string()],
            None => [64, 56, 48].map(|bits| format!("{:x}/{bits}", six.to_bits() >> (128 - bits))).to_vec(),
        },
        _ => vec![address.to_owned()],
    }
}

/// The widest of them.
pub(super) fn whole_network(address: Option<&str>) -> String {
    networks(address).pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::networks;

    #[test]
    fn an_address_belongs_to_its_networks() {
        assert_eq!(networks(Some("203.0.113.9")), ["203.0.113.9"]);
        assert_eq!(networks(Some("::ffff:203.0.113.9")), ["203.0.113.9"]);
        let (one, other) = (networks(Some("2001:db8:1:2ab::1")), networks(Some("2001:db8:1:2cd::1")));
        assert_eq!(one.len(), 3);
        assert_eq!(one.iter().filter(|network| other.contains(network)).count(), 2, "another /64 of one /56");
        assert_eq!(networks(None), ["local"]);
    }
}
