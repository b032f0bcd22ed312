package netfilter

import "encoding/binary"

// DeadLabel is the label of connections that were allowed once and are not any more, as conntrack
// knows it.
const DeadLabel = 127

// DeadMask is the dead label among all labels, in the form of the kernel.
func DeadMask() []byte {
	return binary.NativeEndian.AppendUint64(make([]byte, 8), 1<<(DeadLabel-64))
}
