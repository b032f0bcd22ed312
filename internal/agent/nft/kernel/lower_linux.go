package kernel

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/nephele-io/nephele/internal/agent/nft/kernel/netfilter"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
)

const (
	// register holds what is compared at once, key and those after it the key of a lookup: the ID,
	// the address and the rest.
	register = unix.NFT_REG_1
	key      = unix.NFT_REG32_00
	// loopbackType is ARPHRD_LOOPBACK.
	loopbackType = 772
	// nfAccept is NF_ACCEPT.
	nfAccept = 1
	// verdictGoto is NFT_GOTO, -4.
	verdictGoto = 1<<32 - 4
	// statusTranslated is IPS_DST_NAT, statusSourceTranslated IPS_SRC_NAT.
	statusTranslated       = 1 << 5
	statusSourceTranslated = 1 << 4
	// logRate and logBurst bound how often one rule of the kernel logs. A flood of packets so costs
	// the agent little.
	logRate  = 100
	logBurst = 500
	// logBytes is how much of a packet is handed over: the headers.
	logBytes = 128
	// commentLimit is how much user data a rule can carry.
	commentLimit = 250
)

// lacks are the features that a kernel does not have. Rules are written such that they do without.
type lacks map[Feature]bool

// void reports whether a rule does nothing without what the kernel lacks. It is written
// nevertheless, so that rules keep their places.
func (l lacks) void(r *ruleset.Rule) bool {
	on := func(k ruleset.MatchKind) bool {
		return slices.ContainsFunc(r.Matches, func(m ruleset.Match) bool { return m.Kind == k })
	}
	switch {
	case l[FeatureQueue] && r.Action == ruleset.Queue, l[FeatureLog] && r.Action == ruleset.Log, l[FeatureSegments] && r.Action == ruleset.ClampSegments,
		l[FeatureMasquerade] && (r.Action == ruleset.Masquerade || r.Action == ruleset.SourceNAT),
		(l[FeatureServices] || l[FeatureMasquerade]) && r.Action == ruleset.BalanceBackends:
		return true
	}
	if l[FeatureKinds] && (on(ruleset.MatchFromBridge) || on(ruleset.MatchToBridge) || on(ruleset.MatchFromPeer)) {
		return true
	}
	return l[FeatureLabels] && on(ruleset.MatchDead) || l[FeatureRoutes] && (on(ruleset.MatchRouted) || on(ruleset.MatchNoWayBack) || on(ruleset.MatchToNode))
}

// expressions are a rule in the form of the kernel.
func (l lacks) expressions(r *ruleset.Rule, family ruleset.Family) []expr.Any {
	if l.void(r) {
		return nil
	}
	var out []expr.Any
	for i := range r.Matches {
		m := &r.Matches[i]
		if m.Kind == ruleset.MatchFamily {
			family = ruleset.Family(m.Lo)
		}
		out = append(out, matching(m, family)...)
	}
	if r.Counted() && !l[FeatureCounters] {
		out = append(out, &expr.Counter{})
	}
	action := r.Action
	if l[FeatureReject] && (action == ruleset.RejectReset || action == ruleset.RejectICMP || action == ruleset.RejectPort) {
		action = ruleset.Drop
	}
	switch action {
	case ruleset.Accept:
		return append(out, &expr.Verdict{Kind: expr.VerdictAccept})
	case ruleset.Drop:
		return append(out, &expr.Verdict{Kind: expr.VerdictDrop})
	case ruleset.RejectReset:
		return append(out, &expr.Reject{Type: unix.NFT_REJECT_TCP_RST})
	case ruleset.RejectICMP:
		return append(out, &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED})
	case ruleset.Lookup:
		return append(out, dispatching(ruleset.SetName(r.Target))...)
	case ruleset.BalanceBackends:
		return append(out, balancing(r.Balance)...)
	case ruleset.RejectPort:
		return append(out, &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_PORT_UNREACH})
	case ruleset.Masquerade:
		return append(out, &expr.Masq{FullyRandom: true})
	case ruleset.SourceNAT:
		to, err := netip.ParseAddr(r.Target)
		if err != nil {
			return append(out, &expr.Verdict{Kind: expr.VerdictDrop})
		}
		family := uint32(unix.NFPROTO_IPV4)
		if to.Is6() {
			family = unix.NFPROTO_IPV6
		}
		return append(out, &expr.Immediate{Register: register, Data: to.AsSlice()}, &expr.NAT{Type: expr.NATTypeSourceNAT, Family: family, RegAddrMin: register})
	case ruleset.SetExit:
		number, _ := strconv.ParseUint(r.Target, 10, 8)
		keep, set := binary.NativeEndian.AppendUint32(nil, 1<<ruleset.MarkShift-1), binary.NativeEndian.AppendUint32(nil, uint32(number)<<ruleset.MarkShift)
		return append(out, &expr.Meta{Key: expr.MetaKeyMARK, Register: register},
			&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 4, Mask: keep, Xor: set},
			&expr.Meta{Key: expr.MetaKeyMARK, SourceRegister: true, Register: register})
	case ruleset.ClampSegments:
		return append(out, clamping()...)
	case ruleset.NoTrack:
		return append(out, &expr.Notrack{})
	case ruleset.Jump:
		return append(out, &expr.Verdict{Kind: expr.VerdictJump, Chain: r.Target})
	case ruleset.Queue:
		return append(out, &expr.Target{Name: queueTarget, Rev: queueRevision, Info: queueInfo()})
	case ruleset.Log:
		return append(out,
			&expr.Limit{Type: expr.LimitTypePkts, Rate: logRate, Unit: expr.LimitTimeSecond, Burst: logBurst},
			&expr.Log{Key: 1<<unix.NFTA_LOG_GROUP | 1<<unix.NFTA_LOG_PREFIX | 1<<unix.NFTA_LOG_SNAPLEN, Group: LogGroup, Snaplen: logBytes, Data: []byte(r.LogID())})
	}
	return append(out, &expr.Verdict{Kind: expr.VerdictGoto, Chain: r.Target})
}

// dispatching goes on where a dispatch says.
func dispatching(name ruleset.SetName) []expr.Any {
	family, after := name.DispatchFamily(), uint32(key)
	size := uint32(addressSize(family) / 4)
	end := &expr.Lookup{SourceRegister: key, SetName: string(name), IsDestRegSet: true, DestRegister: unix.NFT_REG_VERDICT}
	switch name.Asked() {
	case ruleset.AskedByFrontend:
		return append(append([]expr.Any{address(&ruleset.Match{}, family, key)}, portTo(key+size)...), end)
	case ruleset.AskedByPort:
		return append(portTo(key), end)
	case ruleset.AskedByOriginal:
		// Of IPv4 the kernel says that the address takes 16 bytes, and writes 4.
		return []expr.Any{&expr.Ct{Key: expr.CtKeyDST, Register: key}, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: key + size},
			&expr.Ct{Key: expr.CtKeyPROTODST, Register: key + size + 1}, end}
	case ruleset.AskedByOriginalPort:
		return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: key}, &expr.Ct{Key: expr.CtKeyPROTODST, Register: key + 1}, end}
	}
	var out []expr.Any
	source, destination := name.DispatchBy()
	for _, which := range []struct{ looked, source bool }{{source, true}, {destination, false}} {
		if which.looked {
			out = append(out, address(&ruleset.Match{Source: which.source}, family, after))
			after += uint32(addressSize(family) / 4)
		}
	}
	return append(out, end)
}

// portTo loads the protocol of a packet and the port that it is sent to.
func portTo(into uint32) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: into}, &expr.Payload{DestRegister: into + 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}}
}

// backend is where a backend is loaded: its address, and its port behind that. The key of a client
// with IPv6 ends before it.
const backend = key + 11

// balancing chooses a backend, and leads the connection there.
func balancing(b *ruleset.BalanceTo) []expr.Any {
	size := uint32(addressSize(b.Family) / 4)
	endpoints, sticky := ruleset.Endpoints4, ruleset.Sticky4
	if b.Family == ruleset.IPv6 {
		endpoints, sticky = ruleset.Endpoints6, ruleset.Sticky6
	}
	client := append([]expr.Any{address(&ruleset.Match{Source: true}, b.Family, key), address(&ruleset.Match{}, b.Family, key+size)}, portTo(key+2*size)...)
	remember := &expr.Dynset{SrcRegKey: key, SrcRegData: backend, SetName: string(sticky), Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: time.Duration(b.Sticky) * time.Second}
	var out []expr.Any
	if b.Known {
		out = append(client, &expr.Lookup{SourceRegister: key, SetName: string(sticky), IsDestRegSet: true, DestRegister: backend}, remember)
	} else {
		at := address(&ruleset.Match{}, b.Family, key)
		if b.AnyAddress {
			at = &expr.Immediate{Register: key, Data: make([]byte, addressSize(b.Family))}
		}
		out = append(append(out, at), portTo(key+size)...)
		out = append(out, &expr.Numgen{Register: key + size + 2, Modulus: b.Backends, Type: unix.NFT_NG_RANDOM, Offset: b.First},
			&expr.Lookup{SourceRegister: key, SetName: string(endpoints), IsDestRegSet: true, DestRegister: backend})
		if b.Sticky > 0 {
			out = append(append(out, client...), remember)
		}
	}
	return append(out, &expr.NAT{Type: expr.NATTypeDestNAT, Family: uint32(protocolFamily(b.Family)), RegAddrMin: backend, RegProtoMin: backend + size})
}

func matching(m *ruleset.Match, family ruleset.Family) []expr.Any {
	equal := func(data ...byte) expr.Any { return &expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: data} }
	meta := func(k expr.MetaKey) expr.Any { return &expr.Meta{Key: k, Register: register} }
	transport := func(offset, size uint32) expr.Any {
		return &expr.Payload{DestRegister: register, Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: size}
	}
	anyBit := func(mask []byte) []expr.Any {
		zero := make([]byte, len(mask))
		return []expr.Any{
			&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: uint32(len(mask)), Mask: mask, Xor: zero},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: zero},
		}
	}
	port := func(offset uint32) []expr.Any {
		lo, hi := binary.BigEndian.AppendUint16(nil, m.Lo), binary.BigEndian.AppendUint16(nil, m.Hi)
		if m.Lo == m.Hi {
			return []expr.Any{transport(offset, 2), equal(lo...)}
		}
		return []expr.Any{transport(offset, 2), &expr.Range{Op: expr.CmpOpEq, Register: register, FromData: lo, ToData: hi}}
	}
	switch m.Kind {
	case ruleset.MatchDead:
		return append([]expr.Any{&expr.Ct{Key: expr.CtKeyLABELS, Register: register}}, anyBit(netfilter.DeadMask())...)
	case ruleset.MatchEstablished:
		state := binary.NativeEndian.AppendUint32(nil, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED)
		return append([]expr.Any{&expr.Ct{Key: expr.CtKeySTATE, Register: register}}, anyBit(state)...)
	case ruleset.MatchInvalid:
		return append([]expr.Any{&expr.Ct{Key: expr.CtKeySTATE, Register: register}}, anyBit(binary.NativeEndian.AppendUint32(nil, expr.CtStateBitINVALID))...)
	case ruleset.MatchTranslated:
		return append([]expr.Any{&expr.Ct{Key: expr.CtKeySTATUS, Register: register}}, anyBit(binary.NativeEndian.AppendUint32(nil, statusTranslated))...)
	case ruleset.MatchLoopback:
		k := expr.MetaKeyOIFTYPE
		if m.Source {
			k = expr.MetaKeyIIFTYPE
		}
		return []expr.Any{meta(k), equal(binary.NativeEndian.AppendUint16(nil, loopbackType)...)}
	case ruleset.MatchProcess: // only packets of local processes have a socket with an owner
		return []expr.Any{meta(expr.MetaKeySKUID), &expr.Cmp{Op: expr.CmpOpGte, Register: register, Data: make([]byte, 4)}}
	case ruleset.MatchRouted:
		return []expr.Any{&expr.Fib{Register: register, ResultADDRTYPE: true, FlagSADDR: true},
			&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL)}}
	case ruleset.MatchAsked:
		return []expr.Any{&expr.Ct{Key: expr.CtKeyDIRECTION, Register: register}, equal(0)}
	case ruleset.MatchExit:
		mask := binary.NativeEndian.AppendUint32(nil, ruleset.MarkMask)
		if m.Lo == 0 {
			return append([]expr.Any{meta(expr.MetaKeyMARK)}, anyBit(mask)...)
		}
		return []expr.Any{meta(expr.MetaKeyMARK), &expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 4, Mask: mask, Xor: make([]byte, 4)},
			equal(binary.NativeEndian.AppendUint32(nil, uint32(m.Lo)<<ruleset.MarkShift)...)}
	case ruleset.MatchSourceTranslated:
		return append([]expr.Any{&expr.Ct{Key: expr.CtKeySTATUS, Register: register}}, anyBit(binary.NativeEndian.AppendUint32(nil, statusSourceTranslated))...)
	case ruleset.MatchAnsweredElsewhere:
		return []expr.Any{&expr.Ct{Key: expr.CtKeyDST, Direction: 1, Register: register}, &expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: m.Peer.From.AsSlice()}}
	case ruleset.MatchAnsweredAt:
		return []expr.Any{&expr.Ct{Key: expr.CtKeyDST, Direction: 1, Register: register}, equal(m.Peer.From.AsSlice()...)}
	case ruleset.MatchPodLink:
		return []expr.Any{meta(expr.MetaKeyIIFNAME), equal([]byte(ruleset.LinkPrefix)...)}
	case ruleset.MatchToNode:
		return []expr.Any{&expr.Fib{Register: register, ResultADDRTYPE: true, FlagDADDR: true}, equal(binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL)...)}
	case ruleset.MatchNoWayBack:
		return []expr.Any{&expr.Fib{Register: register, ResultOIF: true, FlagSADDR: true, FlagIIF: true, FlagPRESENT: true}, equal(0)}
	case ruleset.MatchFromBridge:
		return []expr.Any{meta(metaInKind), equal(filled(kindBridge)...)}
	case ruleset.MatchToBridge:
		return []expr.Any{meta(metaOutKind), equal(filled(kindBridge)...)}
	case ruleset.MatchFromPeer:
		return []expr.Any{meta(metaInKind), equal(filled(kindVeth)...)}
	case ruleset.MatchLink:
		return []expr.Any{meta(expr.MetaKeyIIFNAME), equal(filled(string(m.Of.Set))...)}
	case ruleset.MatchToLink:
		return []expr.Any{meta(expr.MetaKeyOIFNAME), equal(filled(string(m.Of.Set))...)}
	case ruleset.MatchInClear:
		k := expr.MetaKeyOIFNAME
		if m.Source {
			k = expr.MetaKeyIIFNAME
		}
		return []expr.Any{meta(k), &expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: filled(string(m.Of.Set))}}
	case ruleset.MatchAskedPort:
		lo, hi := binary.BigEndian.AppendUint16(nil, m.Lo), binary.BigEndian.AppendUint16(nil, m.Hi)
		load := &expr.Ct{Key: expr.CtKeyPROTODST, Register: register}
		if m.Lo == m.Hi {
			return []expr.Any{load, equal(lo...)}
		}
		return []expr.Any{load, &expr.Range{Op: expr.CmpOpEq, Register: register, FromData: lo, ToData: hi}}
	case ruleset.MatchFamily:
		return []expr.Any{meta(expr.MetaKeyNFPROTO), equal(protocolFamily(family))}
	case ruleset.MatchNeighbour:
		return []expr.Any{
			meta(expr.MetaKeyNFPROTO), equal(unix.NFPROTO_IPV6), meta(expr.MetaKeyL4PROTO), equal(unix.IPPROTO_ICMPV6),
			transport(0, 1), &expr.Range{Op: expr.CmpOpEq, Register: register, FromData: []byte{133}, ToData: []byte{137}},
			&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: 7, Len: 1}, equal(255),
		}
	case ruleset.MatchProtocol:
		return []expr.Any{meta(expr.MetaKeyL4PROTO), equal(byte(m.Lo))}
	case ruleset.MatchSourcePort:
		return port(0)
	case ruleset.MatchPort:
		return port(2)
	case ruleset.MatchType:
		if m.Hi > m.Lo {
			return []expr.Any{transport(0, 1), &expr.Range{Op: expr.CmpOpEq, Register: register, FromData: []byte{byte(m.Lo)}, ToData: []byte{byte(m.Hi)}}}
		}
		return []expr.Any{transport(0, 1), equal(byte(m.Lo))}
	case ruleset.MatchHopLimit:
		offset := uint32(8)
		if family == ruleset.IPv6 {
			offset = 7
		}
		return []expr.Any{&expr.Payload{DestRegister: register, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: 1}, equal(byte(m.Lo))}
	case ruleset.MatchCode:
		return []expr.Any{transport(1, 1), equal(byte(m.Lo))}
	case ruleset.MatchIGMPGroup:
		return []expr.Any{transport(4, 4), equal(m.Peer.From.AsSlice()...)}
	case ruleset.MatchPeer:
		load := address(m, family, register)
		if m.Peer.From == m.Peer.To {
			return []expr.Any{load, equal(m.Peer.From.AsSlice()...)}
		}
		return []expr.Any{load, &expr.Range{Op: expr.CmpOpEq, Register: register, FromData: m.Peer.From.AsSlice(), ToData: m.Peer.To.AsSlice()}}
	case ruleset.MatchPeerIn:
		return []expr.Any{address(m, family, register), &expr.Lookup{SourceRegister: register, SetName: string(m.Of.Set)}}
	}
	// Members, ports and Services.
	after := uint32(key + 4)
	if m.Kind == ruleset.MatchPortOf || m.Kind == ruleset.MatchAskedPortOf {
		var port expr.Any = &expr.Payload{DestRegister: after + 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}
		if m.Kind == ruleset.MatchAskedPortOf {
			port = &expr.Ct{Key: expr.CtKeyPROTODST, Register: after + 1}
		}
		return []expr.Any{&expr.Immediate{Register: key, Data: m.Of.ID[:]}, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: after}, port,
			&expr.Lookup{SourceRegister: key, SetName: string(m.Of.Set)}}
	}
	if m.Kind == ruleset.MatchService {
		// Of IPv4 the kernel says that the address takes 16 bytes, and writes 4.
		protocol := after + uint32(addressSize(family)/4)
		return []expr.Any{&expr.Immediate{Register: key, Data: m.Of.ID[:]}, &expr.Ct{Key: expr.CtKeyDST, Register: after},
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: protocol}, &expr.Ct{Key: expr.CtKeyPROTODST, Register: protocol + 1},
			&expr.Lookup{SourceRegister: key, SetName: string(m.Of.Set)}}
	}
	out := []expr.Any{&expr.Immediate{Register: key, Data: m.Of.ID[:]}, address(m, family, after)}
	if m.Kind == ruleset.MatchNamedPort {
		after += uint32(addressSize(family) / 4)
		out = append(out, &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: after},
			&expr.Payload{DestRegister: after + 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2})
	}
	return append(out, &expr.Lookup{SourceRegister: key, SetName: string(m.Of.Set)})
}

// Kinds of links, from linux/netfilter/nf_tables.h; the library does not have them.
const (
	metaInKind  expr.MetaKey = 26
	metaOutKind expr.MetaKey = 27
)

// filled is the kind or name of a link, as the kernel fills it up.
func filled(text string) []byte {
	out := make([]byte, unix.IFNAMSIZ)
	copy(out, text)
	return out
}

func protocolFamily(f ruleset.Family) byte {
	if f == ruleset.IPv4 {
		return unix.NFPROTO_IPV4
	}
	return unix.NFPROTO_IPV6
}

func addressSize(f ruleset.Family) int {
	if f == ruleset.IPv4 {
		return 4
	}
	return 16
}

// address loads the address of the other end.
func address(m *ruleset.Match, family ruleset.Family, into uint32) expr.Any {
	size, source, destination := uint32(4), uint32(12), uint32(16)
	if family == ruleset.IPv6 {
		size, source, destination = 16, 8, 24
	}
	offset := destination
	if m.Source {
		offset = source
	}
	return &expr.Payload{DestRegister: into, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: size}
}

// familyOf is the family of the packets in a chain, where it is only of one.
func familyOf(chain string) ruleset.Family {
	if strings.HasPrefix(chain, "in6") || strings.HasPrefix(chain, "out6") {
		return ruleset.IPv6
	}
	return ruleset.IPv4
}

// canonical is a text that is the same for rules that do the same and say the same of where they
// come from.
func canonical(list []expr.Any, comment string) string {
	var b strings.Builder
	// Registers of 16 and of 4 bytes lie over one another.
	at := func(r uint32) uint32 {
		if r < unix.NFT_REG32_00 {
			return r * 4
		}
		return r - unix.NFT_REG32_00 + 4
	}
	for _, e := range list {
		switch e := e.(type) {
		case *expr.Meta:
			fmt.Fprintf(&b, "meta %d %t to %d;", e.Key, e.SourceRegister, at(e.Register))
		case *expr.Ct:
			fmt.Fprintf(&b, "ct %d of %d to %d;", e.Key, e.Direction, at(e.Register))
		case *expr.Fib:
			fmt.Fprintf(&b, "fib %t %t %t %t %t %t to %d;", e.ResultADDRTYPE, e.ResultOIF, e.FlagSADDR, e.FlagDADDR, e.FlagIIF, e.FlagPRESENT, at(e.Register))
		case *expr.Cmp:
			fmt.Fprintf(&b, "cmp %d %d %x;", e.Op, at(e.Register), e.Data)
		case *expr.Range:
			fmt.Fprintf(&b, "range %d %d %x-%x;", e.Op, at(e.Register), e.FromData, e.ToData)
		case *expr.Bitwise:
			fmt.Fprintf(&b, "bitwise %d to %d %x %x;", at(e.SourceRegister), at(e.DestRegister), e.Mask, e.Xor)
		case *expr.Payload:
			fmt.Fprintf(&b, "payload %d %d+%d to %d %d;", e.Base, e.Offset, e.Len, at(e.DestRegister), e.OperationType)
		case *expr.Immediate:
			fmt.Fprintf(&b, "immediate %x to %d;", e.Data, at(e.Register))
		case *expr.Lookup:
			fmt.Fprintf(&b, "lookup %d in %s %t %t to %d;", at(e.SourceRegister), e.SetName, e.Invert, e.IsDestRegSet, at(e.DestRegister))
		case *expr.Reject:
			code := e.Code
			if e.Type == unix.NFT_REJECT_TCP_RST {
				code = 0
			}
			fmt.Fprintf(&b, "reject %d %d;", e.Type, code)
		case *expr.Target:
			// The kernel fills the information up.
			info := "?"
			if b, ok := e.Info.(*xt.Unknown); ok && len(*b) >= queueInfoSize {
				info = hex.EncodeToString((*b)[:queueInfoSize])
			}
			fmt.Fprintf(&b, "target %s %d %s;", e.Name, e.Rev, info)
		case *expr.Counter:
			b.WriteString("counter;") // what it has counted makes no other rule of it
		case *expr.Limit:
			fmt.Fprintf(&b, "limit %d %d/%d %d %t;", e.Type, e.Rate, e.Unit, e.Burst, e.Over)
		case *expr.Log:
			fmt.Fprintf(&b, "log %d %d %d %s;", e.Key&^(1<<unix.NFTA_LOG_QTHRESHOLD), e.Group, e.Snaplen, e.Data)
		case *expr.Numgen:
			fmt.Fprintf(&b, "numgen %d of %d from %d to %d;", e.Type, e.Modulus, e.Offset, at(e.Register))
		case *expr.Dynset:
			fmt.Fprintf(&b, "dynset %d %s at %d is %d for %d %t;", e.Operation, e.SetName, at(e.SrcRegKey), at(e.SrcRegData), e.Timeout/time.Second, e.Invert)
		case *expr.NAT:
			fmt.Fprintf(&b, "nat %d %d to %d port %d;", e.Type, e.Family, at(e.RegAddrMin), at(e.RegProtoMin))
		case *expr.Rt:
			fmt.Fprintf(&b, "rt %d to %d;", e.Key, at(e.Register))
		case *expr.Byteorder:
			fmt.Fprintf(&b, "byteorder %d %d/%d of %d to %d;", e.Op, e.Len, e.Size, at(e.SourceRegister), at(e.DestRegister))
		case *expr.Exthdr:
			fmt.Fprintf(&b, "option %d %d+%d of %d from %d;", e.Op, e.Offset, e.Len, e.Type, at(e.SourceRegister))
		case *expr.Masq:
			fmt.Fprintf(&b, "masq %t %t;", e.FullyRandom, e.Persistent)
		case *expr.Verdict:
			fmt.Fprintf(&b, "verdict %d %s;", e.Kind, e.Chain)
		default:
			fmt.Fprintf(&b, "%T;", e) // none of ours
		}
	}
	return b.String() + "# " + comment
}

// comment is what a rule carries for people.
func comment(r *ruleset.Rule) string {
	text := r.From().String()
	return text[:min(len(text), commentLimit)]
}

// userdata is a comment as the nft program writes it.
func userdata(comment string) []byte {
	return append([]byte{0, byte(len(comment) + 1)}, append([]byte(comment), 0)...)
}

func commentOf(userdata []byte) string {
	if len(userdata) < 3 || userdata[0] != 0 || len(userdata) != int(userdata[1])+2 {
		return "?" + hex.EncodeToString(userdata)
	}
	return string(userdata[2 : len(userdata)-1])
}

// canonicalRule is the canonical text of a rule in a chain.
func (l lacks) canonicalRule(chain string, r *ruleset.Rule) string {
	return canonical(l.expressions(r, familyOf(chain)), comment(r))
}

// ruleMessage adds a rule to the end of a chain.
func (l lacks) ruleMessage(table, chain string, r *ruleset.Rule) (netfilter.Message, error) {
	var list []byte
	for _, e := range l.expressions(r, familyOf(chain)) {
		data, err := marshal(e)
		if err != nil {
			return netfilter.Message{}, fmt.Errorf("chain %s: rule %s: %w", chain, r, err)
		}
		list = netfilter.Nest(list, unix.NFTA_LIST_ELEM, data)
	}
	b := netfilter.Text(nil, unix.NFTA_RULE_TABLE, table)
	b = netfilter.Text(b, unix.NFTA_RULE_CHAIN, chain)
	b = netfilter.Nest(b, unix.NFTA_RULE_EXPRESSIONS, list)
	if c := comment(r); c != "" {
		b = netfilter.Attr(b, unix.NFTA_RULE_USERDATA, userdata(c))
	}
	if len(list) > 1<<16-8 {
		return netfilter.Message{}, fmt.Errorf("chain %s: rule %s is too long", chain, r)
	}
	return netfilter.Message{Kind: unix.NFT_MSG_NEWRULE, Flags: unix.NLM_F_CREATE | unix.NLM_F_APPEND, Attrs: b}, nil
}

// marshal returns an expression in the form of the kernel.
func marshal(e expr.Any) ([]byte, error) {
	ct, is := e.(*expr.Ct)
	if !is || ct.Key != expr.CtKeyDST && ct.Key != expr.CtKeyPROTODST {
		return expr.Marshal(unix.NFPROTO_INET, e)
	}
	// The library writes the direction with four bytes, of which the kernel reads the first.
	data := netfilter.Number(netfilter.Number(nil, unix.NFTA_CT_KEY, uint32(ct.Key)), unix.NFTA_CT_DREG, ct.Register)
	data = netfilter.Attr(data, unix.NFTA_CT_DIRECTION, []byte{byte(ct.Direction)})
	return netfilter.Nest(netfilter.Text(nil, unix.NFTA_EXPR_NAME, "ct"), unix.NFTA_EXPR_DATA, data), nil
}

// parseCt reads what marshal has written.
func parseCt(b []byte) (*expr.Ct, error) {
	e := &expr.Ct{}
	return e, netfilter.Attributes(b, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_CT_KEY:
			e.Key = expr.CtKey(ad.Uint32())
		case unix.NFTA_CT_DREG:
			e.Register = ad.Uint32()
		case unix.NFTA_CT_DIRECTION:
			e.Direction = uint32(ad.Uint8())
		}
	})
}

// parseRule returns the canonical text of a rule of the kernel, and its chain.
func parseRule(body []byte) (chain, text string, err error) {
	var list []expr.Any
	var user []byte
	var inner error
	err = netfilter.Attributes(body[4:], func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_RULE_CHAIN:
			chain = ad.String()
		case unix.NFTA_RULE_USERDATA:
			user = slices.Clone(ad.Bytes())
		case unix.NFTA_RULE_EXPRESSIONS:
			inner = netfilter.Attributes(ad.Bytes(), func(ad *netlink.AttributeDecoder) {
				e, err := parseExpression(ad.Bytes())
				if err != nil {
					inner = err
				}
				list = append(list, e)
			})
		}
	})
	if err == nil {
		err = inner
	}
	c := ""
	if user != nil {
		c = commentOf(user)
	}
	return chain, canonical(list, c), err
}

// parseExpression returns nil for an expression that is none of ours.
func parseExpression(b []byte) (expr.Any, error) {
	var name string
	var data []byte
	if err := netfilter.Attributes(b, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.NFTA_EXPR_NAME:
			name = ad.String()
		case unix.NFTA_EXPR_DATA:
			data = ad.Bytes()
		}
	}); err != nil {
		return nil, err
	}
	var e expr.Any
	switch name {
	case "meta":
		e = &expr.Meta{}
	case "ct":
		return parseCt(data)
	case "cmp":
		e = &expr.Cmp{}
	case "range":
		e = &expr.Range{}
	case "bitwise":
		e = &expr.Bitwise{}
	case "payload":
		e = &expr.Payload{}
	case "lookup":
		e = &expr.Lookup{}
	case "reject":
		e = &expr.Reject{}
	case "limit":
		e = &expr.Limit{}
	case "counter":
		e = &expr.Counter{}
	case "log":
		e = &expr.Log{}
	case "fib":
		e = &expr.Fib{}
	case "numgen":
		e = &expr.Numgen{}
	case "dynset":
		e = &expr.Dynset{}
	case "nat":
		e = &expr.NAT{}
	case "masq":
		e = &expr.Masq{}
	case "notrack":
		return &expr.Notrack{}, nil
	case "rt":
		return parseRt(data)
	case "byteorder":
		return parseByteorder(data)
	case "exthdr":
		e = &expr.Exthdr{}
	case "target":
		e = &expr.Target{}
	case "immediate":
		imm := &expr.Immediate{}
		if err := expr.Unmarshal(unix.NFPROTO_INET, data, imm); err != nil {
			return nil, err
		}
		if imm.Register != unix.NFT_REG_VERDICT {
			return imm, nil
		}
		e = &expr.Verdict{}
	default:
		return nil, nil
	}
	return e, expr.Unmarshal(unix.NFPROTO_INET, data, e)
}

// set describes a set of the kernel. dataType is 0 where elements lead nowhere.
type set struct {
	flags, keyType, keySize, dataType, dataSize uint32
}

// verdictType is NFT_DATA_VERDICT: elements say how it goes on.
const verdictType = 0xffffff00

// Types of keys, as the nft program numbers them, for people who list the table with it. An ID
// looks like an IPv6 address.
const (
	typeIPv4     = 7
	typeIPv6     = 8
	typeProtocol = 12
	typePort     = 13
	typeMark     = 19
)

// mostLearned is how many clients the kernel remembers.
const mostLearned = 1 << 18

func concatenated(types ...uint32) (n uint32) {
	for _, t := range types {
		n = n<<6 | t
	}
	return n
}

func describe(name ruleset.SetName) set {
	one, size := uint32(typeIPv4), uint32(4)
	if name.IsDispatch() && name.DispatchFamily() == ruleset.IPv6 {
		one, size = typeIPv6, 16
	}
	switch {
	case name.IsLearned():
		return set{unix.NFT_SET_MAP | unix.NFT_SET_TIMEOUT | unix.NFT_SET_EVAL, concatenated(one, one, typeProtocol, typePort), 2*size + 8, concatenated(one, typePort), size + 4}
	case name.HoldsBackends():
		return set{unix.NFT_SET_MAP, concatenated(one, typeProtocol, typePort, typeMark), size + 12, concatenated(one, typePort), size + 4}
	case name.Asked() == ruleset.AskedByPort, name.Asked() == ruleset.AskedByOriginalPort:
		return set{unix.NFT_SET_MAP, concatenated(typeProtocol, typePort), 8, verdictType, 0}
	case name.Asked() == ruleset.AskedByFrontend, name.Asked() == ruleset.AskedByOriginal:
		return set{unix.NFT_SET_MAP, concatenated(one, typeProtocol, typePort), size + 8, verdictType, 0}
	}
	if name.IsDispatch() {
		if source, destination := name.DispatchBy(); source && destination {
			one, size = concatenated(one, one), 2*size
		}
		return set{unix.NFT_SET_MAP, one, size, verdictType, 0}
	}
	switch name {
	case ruleset.Members4:
		return set{0, concatenated(typeIPv6, typeIPv4), 20, 0, 0}
	case ruleset.Members6:
		return set{0, concatenated(typeIPv6, typeIPv6), 32, 0, 0}
	case ruleset.Ports4:
		return set{0, concatenated(typeIPv6, typeIPv4, typeProtocol, typePort), 28, 0, 0}
	case ruleset.BlockPorts:
		return set{0, concatenated(typeIPv6, typeProtocol, typePort), 24, 0, 0}
	case ruleset.Ports6:
		return set{0, concatenated(typeIPv6, typeIPv6, typeProtocol, typePort), 40, 0, 0}
	}
	if strings.HasPrefix(string(name), "ranges4") {
		return set{unix.NFT_SET_INTERVAL, typeIPv4, 4, 0, 0}
	}
	return set{unix.NFT_SET_INTERVAL, typeIPv6, 16, 0, 0}
}

// element is an element of a set.
type element struct {
	key string
	// end tells that a range ends before it.
	end bool
	// chain is where packets go on, or a backend; empty in sets that are no dispatches.
	chain string
}

// pointers are elements of a dispatch.
func pointers(list []ruleset.Pointer) []element {
	out := make([]element, len(list))
	for i, p := range list {
		out[i] = element{key: p.Key, chain: p.Chain}
	}
	return out
}

// rangeElements are ranges as elements.
func rangeElements(ranges []ruleset.Range) []element {
	var out []element
	for _, r := range ranges {
		out = append(out, element{key: string(r.From.AsSlice())})
		if next := r.To.Next(); next.IsValid() { // the last address needs no end
			out = append(out, element{key: string(next.AsSlice()), end: true})
		}
	}
	return out
}

// elementsLimit is how many elements go into one message: the length of an attribute has 16 bits.
const elementsLimit = 600

func elementMessages(kind uint16, table string, name ruleset.SetName, elements []element) []netfilter.Message {
	var out []netfilter.Message
	for chunk := range slices.Chunk(elements, elementsLimit) {
		var list []byte
		for _, e := range chunk {
			value := netfilter.Nest(nil, unix.NFTA_SET_ELEM_KEY, netfilter.Attr(nil, unix.NFTA_DATA_VALUE, []byte(e.key)))
			if e.end {
				value = netfilter.Number(value, unix.NFTA_SET_ELEM_FLAGS, unix.NFT_SET_ELEM_INTERVAL_END)
			}
			if e.chain != "" && name.HoldsBackends() && kind == unix.NFT_MSG_NEWSETELEM {
				value = netfilter.Nest(value, unix.NFTA_SET_ELEM_DATA, netfilter.Attr(nil, unix.NFTA_DATA_VALUE, []byte(e.chain)))
			} else if e.chain != "" {
				verdict := netfilter.Text(netfilter.Number(nil, unix.NFTA_VERDICT_CODE, verdictGoto), unix.NFTA_VERDICT_CHAIN, e.chain)
				value = netfilter.Nest(value, unix.NFTA_SET_ELEM_DATA, netfilter.Nest(nil, unix.NFTA_DATA_VERDICT, verdict))
			}
			list = netfilter.Nest(list, unix.NFTA_LIST_ELEM, value)
		}
		b := netfilter.Text(nil, unix.NFTA_SET_ELEM_LIST_TABLE, table)
		b = netfilter.Text(b, unix.NFTA_SET_ELEM_LIST_SET, string(name))
		b = netfilter.Nest(b, unix.NFTA_SET_ELEM_LIST_ELEMENTS, list)
		flags := uint16(0)
		if kind == unix.NFT_MSG_NEWSETELEM {
			flags = unix.NLM_F_CREATE
		}
		out = append(out, netfilter.Message{Kind: kind, Flags: flags, Attrs: b})
	}
	return out
}

func keyed(keys []string) []element {
	out := make([]element, len(keys))
	for i, k := range keys {
		out[i].key = k
	}
	return out
}

func setMessage(table string, name ruleset.SetName, id uint32) netfilter.Message {
	d := describe(name)
	b := netfilter.Text(nil, unix.NFTA_SET_TABLE, table)
	b = netfilter.Text(b, unix.NFTA_SET_NAME, string(name))
	b = netfilter.Number(b, unix.NFTA_SET_FLAGS, d.flags)
	b = netfilter.Number(b, unix.NFTA_SET_KEY_TYPE, d.keyType)
	b = netfilter.Number(b, unix.NFTA_SET_KEY_LEN, d.keySize)
	if d.dataType != 0 {
		b = netfilter.Number(b, unix.NFTA_SET_DATA_TYPE, d.dataType)
	}
	if d.dataSize != 0 {
		b = netfilter.Number(b, unix.NFTA_SET_DATA_LEN, d.dataSize)
	}
	if name.IsLearned() {
		b = netfilter.Nest(b, unix.NFTA_SET_DESC, netfilter.Number(nil, unix.NFTA_SET_DESC_SIZE, mostLearned))
	}
	b = netfilter.Number(b, unix.NFTA_SET_ID, id)
	return netfilter.Message{Kind: unix.NFT_MSG_NEWSET, Flags: unix.NLM_F_CREATE, Attrs: b}
}

// beforeHost and atHost are where the hook input is asked: after IPVS, which has led on what is for
// a Service then (at 98 and 99), and after translation of sources.
const beforeHost, atHost = 101, 102

// afterHost and afterAll are behind all other rules of ours on the hook input, and on others.
const afterHost, afterAll = 103, 1

// firstPriority is before 0, in the form of the kernel, and rawPriority before connections are
// followed: -300. sourcePriority is where sources are translated, and
// destinationPriority where destinations are: -100.
const firstPriority, rawPriority, destinationPriority, sourcePriority = 1<<32 - 1, 1<<32 - 300, 1<<32 - 100, 100

// exitPriority is where packets have their destination, and no route yet: -90. manglePriority is
// where packets are changed: -150.
const exitPriority, manglePriority = 1<<32 - 90, 1<<32 - 150

// kindFilter and kindNAT are what chains that packets enter are for.
const kindFilter, kindNAT = "filter", "nat"

// hook is where the packets of a chain come from.
type hook struct {
	number, priority uint32
	kind             string
}

// hooks lists the chains that packets enter.
func hooks() map[string]hook {
	return map[string]hook{
		string(ruleset.PodsToNode): {unix.NF_INET_LOCAL_IN, beforeHost, kindFilter}, string(ruleset.ToHost): {unix.NF_INET_LOCAL_IN, atHost, kindFilter},
		string(ruleset.FromHost): {unix.NF_INET_LOCAL_OUT, 0, kindFilter},
		string(ruleset.PodsOut):  {unix.NF_INET_FORWARD, firstPriority, kindFilter}, string(ruleset.PodsIn): {unix.NF_INET_FORWARD, 0, kindFilter},
		string(ruleset.ForwardedOut): {unix.NF_INET_FORWARD, firstPriority, kindFilter}, string(ruleset.ForwardedIn): {unix.NF_INET_FORWARD, 0, kindFilter},
		string(ruleset.AskedHere): {unix.NF_INET_LOCAL_IN, afterHost, kindFilter}, string(ruleset.AskedByHost): {unix.NF_INET_LOCAL_OUT, afterAll, kindFilter},
		string(ruleset.AskedByPods): {unix.NF_INET_FORWARD, afterAll, kindFilter},
		string(ruleset.ServicesOut): {unix.NF_INET_LOCAL_OUT, firstPriority, kindFilter}, string(ruleset.ServicesIn): {unix.NF_INET_LOCAL_OUT, 0, kindFilter},
		string(ruleset.FromPods): {unix.NF_INET_PRE_ROUTING, rawPriority, kindFilter}, string(ruleset.ToOthers): {unix.NF_INET_POST_ROUTING, sourcePriority, kindNAT},
		string(ruleset.FromNode):       {unix.NF_INET_LOCAL_OUT, rawPriority, kindFilter},
		string(ruleset.InClear):        {unix.NF_INET_POST_ROUTING, 0, kindFilter},
		string(ruleset.ToExits):        {unix.NF_INET_PRE_ROUTING, exitPriority, kindFilter},
		string(ruleset.Segments):       {unix.NF_INET_FORWARD, manglePriority, kindFilter},
		string(ruleset.ToServices):     {unix.NF_INET_PRE_ROUTING, destinationPriority, kindNAT},
		string(ruleset.HostToServices): {unix.NF_INET_LOCAL_OUT, destinationPriority, kindNAT},
	}
}

// hooks returns the hooks of chains, where some kernels cannot have all: what translates nothing
// there is no chain for translation.
func (l lacks) hooks() map[string]hook {
	out := hooks()
	if l[FeatureMasquerade] {
		for name, h := range out {
			h.kind = kindFilter
			out[name] = h
		}
	}
	return out
}

func (l lacks) chainMessage(table, name string) netfilter.Message {
	b := netfilter.Text(nil, unix.NFTA_CHAIN_TABLE, table)
	b = netfilter.Text(b, unix.NFTA_CHAIN_NAME, name)
	if h, base := l.hooks()[name]; base {
		b = netfilter.Nest(b, unix.NFTA_CHAIN_HOOK, netfilter.Number(netfilter.Number(nil, unix.NFTA_HOOK_HOOKNUM, h.number), unix.NFTA_HOOK_PRIORITY, h.priority))
		b = netfilter.Number(b, unix.NFTA_CHAIN_POLICY, nfAccept)
		b = netfilter.Text(b, unix.NFTA_CHAIN_TYPE, h.kind)
	}
	return netfilter.Message{Kind: unix.NFT_MSG_NEWCHAIN, Flags: unix.NLM_F_CREATE, Attrs: b}
}

func named(kind uint16, table string, attribute uint16, name string) netfilter.Message {
	return netfilter.Message{Kind: kind, Attrs: netfilter.Text(netfilter.Text(nil, unix.NFTA_RULE_TABLE, table), attribute, name)}
}
