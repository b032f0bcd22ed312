// Package ipfix writes flows as messages of IPFIX (RFC 7011), with the elements of IANA and of
// Antrea's flow exporter (enterprise number 56506), so that collectors for Antrea work unchanged.
//
// It owns the two templates, of IPv4 and of IPv6, and the encoding. A record sums connections that
// differ only in their source ports: sourceTransportPort is 0, and deltaFlowCount is their number.
//
// Everything is pure: no I/O, no clock, no goroutines.
package ipfix

import (
	"encoding/binary"
	"math"
	"net/netip"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/flows/live"
)

const (
	version     = 10
	templateSet = 2
	// template4 and template6 are the numbers of our templates.
	template4, template6 = 256, 257

	antrea  = 56506
	reverse = 29305 // of what the server answered, RFC 5103

	// variable is the length of fields that say how long they are.
	variable = 65535
	// maxText bounds a text.
	maxText = 254

	headerSize = 16
	// maxMessage is what the length of a message has room for.
	maxMessage = math.MaxUint16
)

// The words of Antrea's elements.
const (
	actionNone, actionAllow, actionDrop, actionReject                                     = 0, 1, 2, 3
	typeKubernetes, typeAntrea, typeAntreaCluster, typeClusterNetworkPolicy               = 1, 2, 3, 4
	flowWithinNode, flowBetweenNodes, flowToExternal, flowFromExternal, flowUnknown uint8 = 1, 2, 3, 4, 0
	endIdle, endOfFlow                                                                    = 2, 3
)

// field is one of a template.
type field struct {
	id     uint16
	pen    uint32
	length uint16
	put    func([]byte, *live.Entry) []byte
}

func text(id uint16, of func(*live.Entry) string) field {
	return field{id, antrea, variable, func(b []byte, e *live.Entry) []byte {
		s := of(e)
		if len(s) > maxText {
			s = strings.ToValidUTF8(s[:maxText], "")
		}
		return append(append(b, byte(len(s))), s...)
	}}
}

func number[N uint8 | uint16 | uint32 | uint64 | int32](id uint16, pen uint32, of func(*live.Entry) N) field {
	var none N
	size := binary.Size(none)
	return field{id, pen, uint16(size), func(b []byte, e *live.Entry) []byte {
		n := uint64(of(e))
		for i := size - 1; i >= 0; i-- {
			b = append(b, byte(n>>(8*i)))
		}
		return b
	}}
}

func count(id uint16, pen uint32, of func(*live.Entry) int64) field {
	return number(id, pen, func(e *live.Entry) uint64 { return uint64(max(of(e), 0)) })
}

func address(id uint16, pen uint32, v6 bool, of func(*live.Entry) netip.Addr) field {
	length := uint16(4)
	if v6 {
		length = 16
	}
	return field{id, pen, length, func(b []byte, e *live.Entry) []byte {
		a := of(e)
		switch {
		case v6 && a.IsValid():
			raw := a.As16()
			return append(b, raw[:]...)
		case !v6 && a.Is4():
			raw := a.As4()
			return append(b, raw[:]...)
		}
		return append(b, make([]byte, length)...)
	}}
}

// fields returns the fields of a template, in the order in which Antrea writes them.
func (e *Encoder) fields(v6 bool) []field {
	source, destination, service := uint16(8), uint16(12), uint16(168)
	if v6 {
		source, destination, service = 27, 28, 169
	}
	out := []field{
		number(150, 0, func(x *live.Entry) uint32 { return uint32(x.First.Unix()) }),
		number(151, 0, func(x *live.Entry) uint32 { return uint32(x.Last.Unix()) }),
		number(136, 0, func(x *live.Entry) uint8 {
			if x.Ended > 0 {
				return endOfFlow
			}
			return endIdle
		}),
		address(source, 0, v6, func(x *live.Entry) netip.Addr { return x.Client }),
		address(destination, 0, v6, func(x *live.Entry) netip.Addr { return x.Server }),
		number(7, 0, func(*live.Entry) uint16 { return 0 }),
		number(11, 0, func(x *live.Entry) uint16 { return x.Port }),
		number(4, 0, func(x *live.Entry) uint8 { return x.Protocol }),
		count(3, 0, func(x *live.Entry) int64 { return max(x.Connections, x.Ended) }),
	}
	for _, pen := range []uint32{0, reverse} {
		packets, octets := func(x *live.Entry) int64 { return x.Packets }, func(x *live.Entry) int64 { return x.Bytes }
		if pen == reverse {
			packets, octets = func(x *live.Entry) int64 { return x.ReplyPackets }, func(x *live.Entry) int64 { return x.ReplyBytes }
		}
		// A record is all that there is of its connections in its time.
		out = append(out, count(86, pen, packets), count(85, pen, octets), count(2, pen, packets), count(1, pen, octets))
	}
	out = append(out,
		text(101, func(x *live.Entry) string { return podName(x.ClientOwner) }), text(100, func(x *live.Entry) string { return podNamespace(x.ClientOwner) }),
		text(104, func(x *live.Entry) string { return nodeOf(x.ClientOwner) }),
		text(103, func(x *live.Entry) string { return podName(x.ServerOwner) }), text(102, func(x *live.Entry) string { return podNamespace(x.ServerOwner) }),
		text(105, func(x *live.Entry) string { return nodeOf(x.ServerOwner) }),
		address(service, antrea, v6, func(x *live.Entry) netip.Addr { return x.Asked.Addr() }),
		number(108, antrea, func(x *live.Entry) uint16 { return x.Asked.Port() }),
		text(109, func(x *live.Entry) string { return named(x.AskedOwner) }),
	)
	for _, d := range []struct {
		direction                                    string
		name, namespace, uid, kind, rule, ruleAction uint16
	}{{"In", 110, 111, 114, 115, 141, 139}, {"Out", 112, 113, 117, 118, 142, 140}} {
		of := func(x *live.Entry) (*live.Cause, string) { return causeIn(x, d.direction) }
		out = append(out,
			text(d.name, func(x *live.Entry) string { c, _ := of(x); return c.Name }), text(d.namespace, func(x *live.Entry) string { c, _ := of(x); return c.Namespace }),
			text(d.uid, func(x *live.Entry) string { c, _ := of(x); return c.UID }),
			number(d.kind, antrea, func(x *live.Entry) uint8 { c, _ := of(x); return policyType(c.Type) }),
			text(d.rule, func(x *live.Entry) string { c, _ := of(x); return c.Rule }),
			number(d.ruleAction, antrea, func(x *live.Entry) uint8 { _, verdict := of(x); return action(verdict) }),
		)
	}
	return append(out,
		text(136, func(*live.Entry) string { return "" }),
		number(137, antrea, flowType),
		text(158, func(*live.Entry) string { return e.cluster }),
	)
}

// podName is the name of a Pod, or of a machine that is none.
func podName(o live.Owner) string {
	if o.Kind == "Node" {
		return ""
	}
	return o.Name
}

func podNamespace(o live.Owner) string {
	if o.Kind == "Node" {
		return ""
	}
	return o.Namespace
}

// nodeOf is where a Pod runs, or the Node itself.
func nodeOf(o live.Owner) string {
	switch o.Kind {
	case "Pod":
		return o.Enforcer
	case "Node":
		return o.Name
	}
	return ""
}

func named(o live.Owner) string {
	if o.Name == "" {
		return ""
	}
	return strings.TrimPrefix(o.Namespace+"/"+o.Name, "/")
}

// causeIn is the policy that has decided in a direction, and what it said.
func causeIn(e *live.Entry, direction string) (*live.Cause, string) {
	switch {
	case e.Cause.Direction == direction:
		return &e.Cause, e.Verdict
	case e.Before.Direction == direction:
		return &e.Before, "Allow"
	}
	return &live.Cause{}, ""
}

func policyType(kind string) uint8 {
	switch kind {
	case "K8sNetworkPolicy":
		return typeKubernetes
	case "AntreaNetworkPolicy":
		return typeAntrea
	case "AntreaClusterNetworkPolicy":
		return typeAntreaCluster
	case "ClusterNetworkPolicy", "AdminNetworkPolicy", "BaselineAdminNetworkPolicy":
		return typeClusterNetworkPolicy
	}
	return 0
}

func action(verdict string) uint8 {
	switch verdict {
	case "Allow":
		return actionAllow
	case "Drop":
		return actionDrop
	case "Reject":
		return actionReject
	}
	return actionNone
}

func flowType(e *live.Entry) uint8 {
	client, server := e.ClientOwner.Kind != "", e.ServerOwner.Kind != ""
	switch {
	case client && server && nodeOf(e.ClientOwner) != "" && nodeOf(e.ClientOwner) == nodeOf(e.ServerOwner):
		return flowWithinNode
	case client && server:
		return flowBetweenNodes
	case client:
		return flowToExternal
	case server:
		return flowFromExternal
	}
	return flowUnknown
}

// Encoder makes messages of one observation domain. It belongs to one goroutine.
type Encoder struct {
	domain, sequence uint32
	cluster          string
	most             int
	v4, v6           []field
}

// NewEncoder returns an Encoder for a cluster, of messages of at most so many bytes. Only a single
// record that is longer makes a longer one.
func NewEncoder(domain uint32, cluster string, most int) *Encoder {
	e := &Encoder{domain: domain, cluster: cluster, most: most}
	e.v4, e.v6 = e.fields(false), e.fields(true)
	return e
}

// Templates returns the messages that say what records are like, one for each kind: go-ipfix, which
// Antrea's collectors are made with, reads no more than one of a message. Collectors need them
// before any record; over UDP they want them again now and then.
func (e *Encoder) Templates(at time.Time) (messages [][]byte) {
	for _, t := range []struct {
		number uint16
		fields []field
	}{{template4, e.v4}, {template6, e.v6}} {
		messages = append(messages, end(set(e.begin(at), templateSet, func(b []byte) []byte {
			b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, t.number), uint16(len(t.fields)))
			for _, f := range t.fields {
				if f.pen == 0 {
					b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, f.id), f.length)
					continue
				}
				b = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(b, f.id|1<<15), f.length)
				b = binary.BigEndian.AppendUint32(b, f.pen)
			}
			return b
		})))
	}
	return messages
}

// Records returns messages with a record of each entry.
func (e *Encoder) Records(entries []*live.Entry, at time.Time) (messages [][]byte) {
	for _, family := range []struct {
		v6       bool
		template uint16
		fields   []field
	}{{false, template4, e.v4}, {true, template6, e.v6}} {
		var records [][]byte
		size := 0
		flush := func() {
			if len(records) == 0 {
				return
			}
			b := set(e.begin(at), family.template, func(b []byte) []byte {
				for _, r := range records {
					b = append(b, r...)
				}
				return b
			})
			e.sequence += uint32(len(records))
			messages = append(messages, end(b))
			records, size = nil, 0
		}
		for _, x := range entries {
			if (x.Client.Is4() && x.Server.Is4()) == family.v6 {
				continue
			}
			var r []byte
			for _, f := range family.fields {
				r = f.put(r, x)
			}
			if size+len(r)+headerSize+4 > min(e.most, maxMessage) {
				flush()
			}
			records, size = append(records, r), size+len(r)
		}
		flush()
	}
	return messages
}

func (e *Encoder) begin(at time.Time) []byte {
	b := binary.BigEndian.AppendUint16(nil, version)
	b = binary.BigEndian.AppendUint16(b, 0) // the length, once it is known
	b = binary.BigEndian.AppendUint32(b, uint32(at.Unix()))
	b = binary.BigEndian.AppendUint32(b, e.sequence)
	return binary.BigEndian.AppendUint32(b, e.domain)
}

func set(b []byte, id uint16, content func([]byte) []byte) []byte {
	begin := len(b)
	b = content(append(binary.BigEndian.AppendUint16(b, id), 0, 0))
	binary.BigEndian.PutUint16(b[begin+2:], uint16(len(b)-begin))
	return b
}

func end(b []byte) []byte {
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	return b
}
