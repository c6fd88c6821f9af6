//! Distinguishes public internet addresses. All others belong to a private network or this machine, or are reserved,
//! and are called only if the worker's configuration allows it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Reserved blocks without public hosts, as the first address and the prefix length.
const RESERVED_V4: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !RESERVED_V4.iter().any(|(block, length)| (bits ^ u32::from_be_bytes(*block)) >> (32 - length) == 0)
}

/// Only global unicast (2000::/3) is public, without its blocks that are not hosts or that embed an IPv4 address. An
/// IPv4-mapped address, or one reached through NAT64, is judged by its IPv4 address.
fn is_public_v6(address: Ipv6Addr) -> bool {
    if let Some(inner) = address.to_ipv4_mapped() {
        return is_public_v4(inner);
    }
    let [first, second, third, fourth, fifth, sixth, high, low] = address.segments();
    if (first, second, third, fourth, fifth, sixth) == (0x64, 0xff9b, 0, 0, 0, 0) {
        return is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    }
    let is_global = first & 0xe000 == 0x2000;
    let is_teredo_or_special = first == 0x2001 && second < 0x0200;
    let is_documentation = (first == 0x2001 && second == 0x0db8) || (first == 0x3fff && second < 0x1000);
    let is_6to4 = first == 0x2002;
    is_global && !is_teredo_or_special && !is_documentation && !is_6to4
}

#[cfg(test)]
mod tests {
    use super::is_public;

    #[test]
    fn private_special_and_disguised_addresses_are_not_public() {
        let refused = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "169.254.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.1",
            "198.18.0.1",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b::10.1.2.3",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:0:53aa:64c:0:1:2:3",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:1ff::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "2002:a00:1::",
            "2002:808:808::",
            "3fff::1",
            "3fff:fff::1",
            "5f00::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
        ];
        for text in refused {
            assert!(!is_public(text.parse().unwrap_or_else(|_| panic!("{text}"))), "{text}");
        }
    }

    #[test]
    fn hosts_of_the_internet_are_public() {
        let public = [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.1",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2a00:1450::1",
            "3ffe::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
        ];
        for text in public {
            assert!(is_public(text.parse().unwrap_or_else(|_| panic!("{text}"))), "{text}");
        }
    }
}
