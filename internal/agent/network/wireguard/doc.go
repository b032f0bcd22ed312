// Package wireguard manages the WireGuard device of a Node and the key of the Node. The kernel
// encrypts where it has WireGuard, else wireguard-go in the process. Only programs that link this
// package can encrypt.
//
// It owns the files of the key, in a directory of its own, and the device network.WireGuardDevice.
// Package network decides which Nodes are its peers.
//
// It promises:
//
//   - The private key leaves the process only to the kernel and to its file, which only root can
//     read. A new key is used only after the caller has published it.
//   - The device stays when the process ends. Where the kernel encrypts, traffic continues; else
//     packets of other Nodes are lost until the next process starts. Nothing is sent in the clear.
//   - Reading returns what is in force, even if another program has set it.
//
// It is safe for concurrent use.
package wireguard
