package kernel

import (
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
)

// clamping lowers the largest segment that a packet with SYN names to what fits the routes to its
// destination and back; the kernel raises none.
func clamping() []expr.Any {
	const flags, syn, synOrReset = 13, 0x02, 0x06
	const option, offset, size = 2, 2, 2
	return []expr.Any{
		&expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: flags, Len: 1},
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 1, Mask: []byte{synOrReset}, Xor: []byte{0}},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: []byte{syn}},
		&expr.Rt{Register: register, Key: expr.RtTCPMSS},
		&expr.Byteorder{SourceRegister: register, DestRegister: register, Op: expr.ByteorderHton, Len: size, Size: size},
		&expr.Exthdr{SourceRegister: register, Type: option, Offset: offset, Len: size, Op: expr.ExthdrOpTcpopt},
	}
}

// parseRt and parseByteorder read what the library writes and does not read.
func parseRt(b []byte) (*expr.Rt, error) {
	e := &expr.Rt{}
	return e, netfilter.Attributes(b, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_RT_KEY:
			e.Key = expr.RtKey(ad.Uint32())
		case unix.NFTA_RT_DREG:
			e.Register = ad.Uint32()
		}
	})
}

func parseByteorder(b []byte) (*expr.Byteorder, error) {
	e := &expr.Byteorder{}
	return e, netfilter.Attributes(b, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_BYTEORDER_SREG:
			e.SourceRegister = ad.Uint32()
		case unix.NFTA_BYTEORDER_DREG:
			e.DestRegister = ad.Uint32()
		case unix.NFTA_BYTEORDER_OP:
			e.Op = expr.ByteorderOp(ad.Uint32())
		case unix.NFTA_BYTEORDER_LEN:
			e.Len = ad.Uint32()
		case unix.NFTA_BYTEORDER_SIZE:
			e.Size = ad.Uint32()
		}
	})
}
