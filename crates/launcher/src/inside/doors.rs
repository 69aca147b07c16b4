//! The sandbox's only way out: sockets that listen on its own loopback address, made here and served by whoever outside
//! fetches them. There is no other interface and no route.

use std::io;
use std::net::{Ipv4Addr, TcpListener};

use omoi_launcher::Door;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::os::fd::AsFd as _;

use crate::sys;

/// Each door with the port that it has.
pub fn open(doors: &[Door]) -> io::Result<Vec<(Door, TcpListener)>> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    sys::loopback_up(socket.as_fd())?;
    let open = |door: &Door| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, door.port))?;
        let port = listener.local_addr()?.port();
        Ok((Door { name: door.name.clone(), port }, listener))
    };
    doors.iter().map(open).collect()
}
