// Package wireguard is the device of WireGuard of a Node and the key of the Node: by the kernel
// where it has WireGuard, and else by wireguard-go in the process. Only programs that link it can
// encrypt.
//
// It owns the files of the key, in a directory of which it is the only user, and the device
// network.WireGuardDevice; which Nodes are behind it package network says.
//
// It promises:
//
//   - The private key leaves the process only to the kernel and to its file, which is root's alone.
//     A new key counts only once the caller says that others were told of it.
//   - The device stays when the process ends. Where the kernel encrypts, so does what it carries;
//     else what others send is lost until the next process, and nothing goes out in the clear.
//   - What is read back is what is in force, whoever has set it.
//
// It is safe for concurrent use.
package wireguard
