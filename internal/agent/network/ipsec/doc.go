// Package ipsec manages what encrypts between Nodes by ESP: it configures charon, strongSwan's
// daemon, over its socket (vici), with the other Nodes, and keeps the certificate of the Node. Only
// programs that link this package can encrypt so.
//
// It owns the file of the certificate with its key, the device network.IPsecDevice of the kernel,
// and in charon all credentials and the connections that are named by identities of Nodes. Package
// network decides which Nodes are its peers. No cipher and no key of a packet is here.
//
// It promises:
//
//   - The private key leaves the process only to charon and to its file, which only root can read.
//   - Proposals are such that FIPS 140 approves. Whether the module that computes them is validated
//     is up to the image of charon.
//   - What is between Nodes stays encrypted when this process ends, and the next one adopts it.
//     When charon ends, it is lost; nothing goes out in the clear.
//   - What is read back is what is in force, also if another program has set it.
//
// The kernel encrypts by an interface of xfrm, where it has that and ESP. Where charon has its
// plugin kernel-libipsec, it encrypts itself, and the device is that which the plugin makes.
//
// A Device is safe for concurrent use.
package ipsec
