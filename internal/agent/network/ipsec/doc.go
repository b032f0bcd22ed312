// Package ipsec encrypts between Nodes by ESP: it configures charon, strongSwan's daemon, over its
// socket (vici), with the other Nodes, and keeps the certificate of the Node. Only programs that
// link this package can use IPsec.
//
// It owns the file of the certificate with its key, the device network.IPsecDevice of the kernel,
// and in charon all credentials and the connections that are named by identities of Nodes. Package
// network decides which Nodes are its peers. No cipher and no key of a packet is here.
//
// It promises:
//
//   - The private key leaves the process only to charon and to its file, which only root can read.
//   - Proposals use only algorithms that FIPS 140 approves. Whether the module that computes them
//     is validated depends on the image of charon.
//   - Traffic between Nodes stays encrypted when this process ends, and the next process adopts the
//     SAs. When charon ends, packets are lost; nothing is sent in the clear.
//   - Reading returns what is in force, even if another program has set it.
//
// The kernel encrypts through an xfrm interface, if it has xfrm and ESP. If charon has the plugin
// kernel-libipsec, charon itself encrypts, and the device is the one that the plugin makes.
//
// A Device is safe for concurrent use.
package ipsec
