// Package exports_test holds what flows are exported as against what others read: the collector
// goflow2 for IPFIX, and that of OpenTelemetry for log records.
package exports_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/netsampler/goflow2/v2/decoders/netflow"
	"go.opentelemetry.io/collector/pdata/plog/plogotlp"
	"k8s.io/utils/clock"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
	"github.com/nephele-io/nephele/internal/flows/export"
	"github.com/nephele-io/nephele/internal/flows/live"
)

var begun = time.Date(2030, 1, 2, 3, 4, 0, 0, time.UTC)

// draw draws entries of every kind.
func draw(r *rand.Rand, n int) []*live.Entry {
	owner := func() live.Owner {
		i := r.IntN(20)
		return []live.Owner{
			{}, {Kind: "Pod", Namespace: "shop", Name: fmt.Sprintf("web-%d", i), Enforcer: fmt.Sprintf("worker-%d", i%3)}, {Kind: "Node", Name: "worker-1", Enforcer: "worker-1"},
			{Kind: "ExternalEntity", Namespace: "vms", Name: strings.Repeat("long", 1+r.IntN(80)), Enforcer: "vms/host"},
		}[r.IntN(4)]
	}
	cause := func(direction string) live.Cause {
		kind := []string{"K8sNetworkPolicy", "AntreaNetworkPolicy", "AntreaClusterNetworkPolicy", "AdminNetworkPolicy"}[r.IntN(4)]
		return live.Cause{Cause: "Policy", Type: kind, Namespace: "shop", Name: fmt.Sprintf("policy-%d", r.IntN(9)), UID: "uid", Direction: direction, Rule: "rule", Index: int32(r.IntN(4))}
	}
	address := func(v6 bool) netip.Addr {
		if v6 {
			return netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", 1+r.IntN(1000)))
		}
		return netip.AddrFrom4([4]byte{10, 0, byte(r.IntN(4)), byte(r.IntN(250))})
	}
	out := make([]*live.Entry, n)
	for i := range out {
		v6 := r.IntN(3) == 0
		e := &live.Entry{
			First: begun.Add(time.Duration(i) * time.Second), Enforcer: "worker-1", Direction: "In", Client: address(v6), Server: address(v6), ClientOwner: owner(), ServerOwner: owner(),
			Protocol: []uint8{6, 17, 1, 132}[r.IntN(4)], Port: uint16(r.IntN(65536)), Verdict: []string{"Allow", "Drop", "Reject", ""}[r.IntN(4)],
			Connections: r.Int64N(100), Ended: r.Int64N(2), Packets: r.Int64N(1 << 40), Bytes: r.Int64N(1 << 50), ReplyPackets: r.Int64N(1000), ReplyBytes: r.Int64N(1 << 33),
		}
		e.Last = e.First.Add(2 * time.Second)
		switch r.IntN(4) {
		case 0:
			e.Cause = cause("In")
		case 1:
			e.Cause = cause("Out")
		case 2:
			e.Cause, e.Before = cause("In"), cause("Out")
		default:
			e.Cause = live.Cause{Cause: "Native"}
		}
		if r.IntN(3) == 0 {
			e.Asked, e.AskedOwner = netip.AddrPortFrom(address(v6), 443), live.Owner{Kind: "Service", Namespace: "shop", Name: "api"}
		}
		if r.IntN(20) == 0 {
			e.Differs = "Leaks"
		}
		out[i] = e
	}
	return out
}

// element names an element of Antrea's registry, which is in testdata, or of IANA's.
type element struct {
	pen uint32
	id  uint16
}

// registry are Antrea's elements by name, with their types.
func registry(t *testing.T) map[string]struct {
	element
	kind string
} {
	t.Helper()
	f, err := os.Open("testdata/elements.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]struct {
		element
		kind string
	}{}
	for _, l := range lines[1:] {
		id, idErr := strconv.ParseUint(l[0], 10, 16)
		pen, penErr := strconv.ParseUint(l[3], 10, 32)
		if idErr != nil || penErr != nil {
			t.Fatal(l)
		}
		out[l[1]] = struct {
			element
			kind string
		}{element{uint32(pen), uint16(id)}, l[2]}
	}
	return out
}

// want is what a record of an entry says, by the names of the elements.
func want(e *live.Entry) map[string]any {
	v := "IPv4"
	if e.Client.Is6() {
		v = "IPv6"
	}
	cut := func(s string) string { return s[:min(len(s), 254)] }
	out := map[string]any{
		"flowStartSeconds": e.First.Unix(), "flowEndSeconds": e.Last.Unix(), "source" + v + "Address": e.Client, "destination" + v + "Address": e.Server, "sourceTransportPort": int64(0),
		"destinationTransportPort": int64(e.Port), "protocolIdentifier": int64(e.Protocol), "deltaFlowCount": max(e.Connections, e.Ended), "packetTotalCount": e.Packets, "octetTotalCount": e.Bytes,
		"packetDeltaCount": e.Packets, "octetDeltaCount": e.Bytes, "reversePacketTotalCount": e.ReplyPackets, "reverseOctetTotalCount": e.ReplyBytes, "reversePacketDeltaCount": e.ReplyPackets,
		"reverseOctetDeltaCount": e.ReplyBytes, "flowEndReason": int64(2), "tcpState": "", "clusterId": "the-cluster", "destinationServicePort": int64(e.Asked.Port()), "destinationServicePortName": "",
	}
	if e.Ended > 0 {
		out["flowEndReason"] = int64(3)
	}
	none := netip.IPv4Unspecified()
	if v == "IPv6" {
		none = netip.IPv6Unspecified()
	}
	out["destinationService"+v] = none
	if e.Asked.IsValid() {
		out["destinationService"+v], out["destinationServicePortName"] = e.Asked.Addr(), "shop/api"
	}
	node := map[string]string{}
	for side, o := range map[string]live.Owner{"source": e.ClientOwner, "destination": e.ServerOwner} {
		out[side+"PodName"], out[side+"PodNamespace"], out[side+"NodeName"] = "", "", ""
		switch o.Kind {
		case "Node":
			node[side] = o.Name
		case "Pod":
			node[side] = o.Enforcer
			fallthrough
		case "ExternalEntity":
			out[side+"PodName"], out[side+"PodNamespace"] = cut(o.Name), o.Namespace
		}
		out[side+"NodeName"] = node[side]
	}
	from, to := e.ClientOwner.Kind != "", e.ServerOwner.Kind != ""
	kind := int64(0)
	switch {
	case from && to && node["source"] == node["destination"] && node["source"] != "":
		kind = 1
	case from && to:
		kind = 2
	case from:
		kind = 3
	case to:
		kind = 4
	}
	out["flowType"] = kind
	for direction, side := range map[string]string{"In": "ingress", "Out": "egress"} {
		by, action := live.Cause{}, int64(0)
		if e.Before.Direction == direction {
			by, action = e.Before, 1
		}
		if e.Cause.Direction == direction {
			by, action = e.Cause, map[string]int64{"Allow": 1, "Drop": 2, "Reject": 3}[e.Verdict]
		}
		out[side+"NetworkPolicyName"], out[side+"NetworkPolicyNamespace"], out[side+"NetworkPolicyUID"] = by.Name, by.Namespace, by.UID
		out[side+"NetworkPolicyRuleName"], out[side+"NetworkPolicyRuleAction"] = by.Rule, action
		out[side+"NetworkPolicyType"] = map[string]int64{"K8sNetworkPolicy": 1, "AntreaNetworkPolicy": 2, "AntreaClusterNetworkPolicy": 3, "AdminNetworkPolicy": 4}[by.Type]
	}
	return out
}

// collected are the records that a collector has decoded.
type collected struct {
	mu        sync.Mutex
	templates netflow.NetFlowTemplateSystem
	records   [][]netflow.DataField
	errs      []error
	next      uint32
}

func (c *collected) take(message []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var p netflow.IPFIXPacket
	if err := netflow.DecodeMessageVersion(bytes.NewBuffer(message), c.templates, nil, &p); err != nil {
		c.errs = append(c.errs, err)
		return
	}
	if p.SequenceNumber != c.next {
		c.errs = append(c.errs, fmt.Errorf("sequence number %d, want %d", p.SequenceNumber, c.next))
	}
	for _, s := range p.FlowSets {
		if data, is := s.(netflow.DataFlowSet); is {
			for _, r := range data.Records {
				c.records = append(c.records, r.Values)
				c.next++
			}
		}
	}
}

func (c *collected) count() int { c.mu.Lock(); defer c.mu.Unlock(); return len(c.records) }

// TestIPFIX sends entries over UDP and TCP to a collector, which decodes every one as it was, by
// the elements of Antrea's registry.
func TestIPFIX(t *testing.T) {
	t.Parallel()
	elements := registry(t)
	entries := draw(rand.New(rand.NewPCG(1, 2)), 700)
	for _, network := range []string{"udp", "tcp"} {
		c := &collected{templates: netflow.CreateTemplateSystem()}
		at := ""
		if network == "udp" {
			l, err := net.ListenPacket("udp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			_ = l.(*net.UDPConn).SetReadBuffer(4 << 20)
			at = l.LocalAddr().String()
			go func() {
				b := make([]byte, 1<<16)
				for {
					n, _, err := l.ReadFrom(b)
					if err != nil {
						return
					}
					c.take(slices.Clone(b[:n]))
				}
			}()
		} else {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			at = l.Addr().String()
			go func() {
				conn, err := l.Accept()
				for err == nil {
					head := make([]byte, 4)
					if _, err = io.ReadFull(conn, head); err != nil {
						return
					}
					rest := make([]byte, int(binary.BigEndian.Uint16(head[2:]))-4)
					_, err = io.ReadFull(conn, rest)
					c.take(append(head, rest...))
				}
			}()
		}
		sink, err := export.NewIPFIX(network+"://"+at, "the-cluster")
		if err != nil {
			t.Fatal(err)
		}
		for part := range slices.Chunk(entries, 20) { // as much as a socket holds
			before := c.count()
			if _, err := sink.Send(t.Context(), part, begun); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(time.Minute); c.count() < before+len(part) && time.Now().Before(deadline); {
				time.Sleep(time.Millisecond)
			}
		}
		_ = sink.Close()
		compare(t, network, c, entries, elements)
	}
}

func compare(t *testing.T, network string, c *collected, entries []*live.Entry, elements map[string]struct {
	element
	kind string
}) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.errs) > 0 || len(c.records) != len(entries) {
		t.Fatalf("%s: %d records of %d, %v", network, len(c.records), len(entries), c.errs)
	}
	texts := func(m map[string]any) string {
		var out []string
		for k, v := range m {
			out = append(out, fmt.Sprintf("%s=%v", k, v))
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	var got, wanted []string
	for _, r := range c.records {
		said := map[string]any{}
		for _, f := range r {
			raw := f.Value.([]byte)
			name, kind := "", ""
			for n, e := range elements {
				if e.id == f.Type && e.pen == f.Pen {
					name, kind = n, e.kind
				}
			}
			switch kind {
			case "string":
				said[name] = string(raw)
			case "ipv4Address", "ipv6Address":
				a, _ := netip.AddrFromSlice(raw)
				said[name] = a
			case "":
				t.Fatalf("element %d of %d is in no registry", f.Type, f.Pen)
			default:
				if size := map[string]int{"unsigned8": 1, "unsigned16": 2, "unsigned32": 4, "dateTimeSeconds": 4, "unsigned64": 8}[kind]; size != len(raw) {
					t.Fatalf("%s has %d bytes, want %d", name, len(raw), size)
				}
				said[name] = int64(binary.BigEndian.Uint64(append(make([]byte, 8-len(raw)), raw...)))
			}
		}
		got = append(got, texts(said))
	}
	for _, e := range entries {
		wanted = append(wanted, texts(want(e)))
	}
	slices.Sort(got)
	slices.Sort(wanted)
	for i := range got {
		if got[i] != wanted[i] {
			t.Fatalf("%s:\n%s\nwant\n%s", network, got[i], wanted[i])
		}
	}
}

// TestLogRecords sends entries to a collector of OpenTelemetry that is away at first, and refuses
// some: what it gets says all that there is, once, and what it refuses is counted.
func TestLogRecords(t *testing.T) {
	t.Parallel()
	entries := draw(rand.New(rand.NewPCG(3, 4)), 2500)
	var mu sync.Mutex
	got, asked, records, rejected := map[string]int{}, 0, 0, int64(0)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if asked++; asked == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		raw, err := io.ReadAll(z)
		request := plogotlp.NewExportRequest()
		if err != nil || request.UnmarshalProto(raw) != nil || r.URL.Path != "/v1/logs" || r.Header.Get("Authorization") != "Bearer a b" {
			t.Error("the request is not understood", err, r.URL, r.Header)
		}
		about := request.Logs().ResourceLogs().At(0)
		if name, _ := about.Resource().Attributes().Get("service.name"); name.Str() != "nephele" {
			t.Error("not of nephele")
		}
		list := about.ScopeLogs().At(0).LogRecords()
		for i := range list.Len() {
			x := list.At(i)
			got[fmt.Sprint(x.EventName(), x.SeverityText(), x.Timestamp().AsTime().UTC(), x.Body().Str(), flat(x.Attributes().AsRaw()))]++
		}
		records += list.Len()
		response := plogotlp.NewExportResponse()
		response.PartialSuccess().SetRejectedLogRecords(int64(min(2, list.Len()))) // a batch may be of one
		rejected += response.PartialSuccess().RejectedLogRecords()
		raw, err = response.MarshalProto()
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		_, _ = w.Write(raw)
	}))
	defer server.Close()
	sink, err := export.NewOTLP(server.URL, "authorization=Bearer%20a%20b", "v1", "the-cluster")
	if err != nil {
		t.Fatal(err)
	}
	e := &export.Exporter{Name: "otlp", Sink: sink, Clock: clock.RealClock{}, Log: logr.Discard()}
	in := make(chan *live.Entry, len(entries))
	for _, x := range entries {
		in <- x
	}
	ended := make(chan struct{})
	ctx, stop := contextOf(t)
	go func() { e.Run(ctx, in); close(ended) }()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if sent, refused, _ := e.Counts(); sent+refused == int64(len(entries)) {
			break
		}
	}
	stop()
	<-ended
	sent, refused, failing := e.Counts()
	mu.Lock()
	defer mu.Unlock()
	if records != len(entries) || refused != rejected || rejected == 0 || sent != int64(len(entries))-refused || failing {
		t.Errorf("%d records, %d sent, %d refused, failing %v, in %d requests", records, sent, refused, failing, asked)
	}
	wanted := map[string]int{}
	for _, x := range entries {
		wanted[wantRecord(x)]++
	}
	if !reflect.DeepEqual(got, wanted) {
		for k := range wanted {
			if got[k] == 0 {
				t.Fatalf("lacks\n%s\nhas for example\n%s", k, first(got))
			}
		}
	}
}

func first(m map[string]int) string {
	for k := range m {
		return k
	}
	return ""
}

func flat(m map[string]any) string {
	var out []string
	for k, v := range m {
		out = append(out, fmt.Sprintf("%s=%v", k, v))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// wantRecord is what a record of an entry says.
func wantRecord(e *live.Entry) string {
	name := func(a netip.Addr, o live.Owner) string {
		switch {
		case o.Name == "":
			return a.String()
		case o.Namespace == "":
			return o.Name
		}
		return o.Namespace + "/" + o.Name
	}
	protocol := map[uint8]string{6: "tcp", 17: "udp", 1: "icmp", 132: "sctp"}[e.Protocol]
	verdict, severity, network := e.Verdict, "INFO", "ipv4"
	switch {
	case e.Differs == "Leaks":
		severity = "ERROR"
	case verdict == "Drop" || verdict == "Reject":
		severity = "WARN"
	}
	if verdict == "" {
		verdict = "Unknown"
	}
	if e.Client.Is6() {
		network = "ipv6"
	}
	m := map[string]any{
		"source.address": e.Client, "destination.address": e.Server, "destination.port": e.Port, "network.transport": protocol, "network.type": network, "nephele.enforcer": "worker-1",
		"nephele.direction": "In", "nephele.verdict": verdict, "nephele.differs": e.Differs, "nephele.connections": e.Connections, "nephele.ended": e.Ended, "nephele.packets": e.Packets,
		"nephele.bytes": e.Bytes, "nephele.reply.packets": e.ReplyPackets, "nephele.reply.bytes": e.ReplyBytes,
	}
	for side, o := range map[string]live.Owner{"source": e.ClientOwner, "destination": e.ServerOwner, "service": e.AskedOwner} {
		m["nephele."+side+".kind"], m["nephele."+side+".namespace"], m["nephele."+side+".name"] = o.Kind, o.Namespace, o.Name
	}
	if e.Asked.IsValid() {
		m["nephele.service.address"], m["nephele.service.port"] = e.Asked.Addr(), e.Asked.Port()
	}
	for side, c := range map[string]analysis.TrafficCause{"by": e.Cause, "before": e.Before} {
		m["nephele."+side+".cause"], m["nephele."+side+".policy.type"], m["nephele."+side+".policy.namespace"] = c.Cause, c.Type, c.Namespace
		m["nephele."+side+".policy.name"], m["nephele."+side+".policy.uid"], m["nephele."+side+".rule"] = c.Name, c.UID, c.Rule
	}
	for k, v := range m {
		if v == "" {
			delete(m, k)
		}
	}
	body := fmt.Sprintf("%s %s to %s %s/%d", verdict, name(e.Client, e.ClientOwner), name(e.Server, e.ServerOwner), protocol, e.Port)
	return fmt.Sprint("nephele.flow", severity, e.Last.UTC(), body, flat(m))
}

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}
