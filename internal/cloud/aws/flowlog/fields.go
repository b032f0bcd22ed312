package flowlog

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/flows"
)

// field is what a column of a flow log is about.
type field uint8

// The fields that records are made of. All others are passed over.
const (
	unused field = iota
	accountID
	interfaceID
	srcAddr
	dstAddr
	srcPort
	dstPort
	protocol
	packetCount
	byteCount
	start
	end
	action
	logStatus
	tcpFlags
	pktSrcAddr
	pktDstAddr
	region
	pktSrcService
	pktDstService
	flowDirection
	rejectReason
	fieldCount
)

// fieldNames are the names of the fields in headers. Parquet has them with underscores.
var fieldNames = [fieldCount]string{
	accountID: "account-id", interfaceID: "interface-id", srcAddr: "srcaddr", dstAddr: "dstaddr", srcPort: "srcport", dstPort: "dstport",
	protocol: "protocol", packetCount: "packets", byteCount: "bytes", start: "start", end: "end", action: "action", logStatus: "log-status",
	tcpFlags: "tcp-flags", pktSrcAddr: "pkt-srcaddr", pktDstAddr: "pkt-dstaddr", region: "region", pktSrcService: "pkt-src-aws-service",
	pktDstService: "pkt-dst-aws-service", flowDirection: "flow-direction", rejectReason: "reject-reason",
}

// defaultFormat are the fields of version 2, which is what a log without a header has.
var defaultFormat = []string{
	"version", "account-id", "interface-id", "srcaddr", "dstaddr", "srcport", "dstport", "protocol", "packets", "bytes", "start", "end", "action", "log-status",
}

// needed are the fields without which no record can be made. Of the addresses either kind does.
var needed = []field{interfaceID, srcPort, dstPort, protocol, start, action}

// wanted are the fields that make answers exact, with what is missed without them.
var wanted = []struct {
	field
	why string
}{
	{tcpFlags, "which end began a connection is a guess"},
	{flowDirection, "the way of packets is told by the addresses of the interface"},
	{pktSrcAddr, "behind gateways and on further addresses of an interface the ends are not known"},
	{logStatus, "losses of the log are not known"},
}

// columns say which field each column is.
type columns []field

// columnsOf reads the names of the columns.
func columnsOf(names []string) (columns, error) {
	out := make(columns, len(names))
	for i, name := range names {
		f := slices.Index(fieldNames[:], strings.ToLower(strings.ReplaceAll(name, "_", "-")))
		if f <= int(unused) {
			continue
		}
		if slices.Contains(out[:i], field(f)) {
			return nil, fmt.Errorf("the field %s stands there twice", name)
		}
		out[i] = field(f)
	}
	var missing []string
	for _, f := range needed {
		if !slices.Contains(out, f) {
			missing = append(missing, fieldNames[f])
		}
	}
	for _, pair := range [][2]field{{srcAddr, pktSrcAddr}, {dstAddr, pktDstAddr}} {
		if !slices.Contains(out, pair[0]) && !slices.Contains(out, pair[1]) {
			missing = append(missing, fieldNames[pair[0]])
		}
	}
	if len(missing) > 0 {
		return nil, &FieldsError{Missing: missing}
	}
	return out, nil
}

// lacks are the wanted fields that the columns do not have, each with what is missed.
func (c columns) lacks() []string {
	var out []string
	for _, w := range wanted {
		if !slices.Contains(c, w.field) {
			out = append(out, fieldNames[w.field]+": "+w.why)
		}
	}
	return out
}

// FieldsError says that a flow log lacks fields without which it tells nothing.
type FieldsError struct{ Missing []string }

// Error implements error.
func (e *FieldsError) Error() string {
	return fmt.Sprintf("the flow log lacks the fields %s. A flow log cannot be changed: make another one with --log-format '%s'", strings.Join(e.Missing, ", "), Format())
}

// Format is the value of --log-format of "aws ec2 create-flow-logs" that gives all fields that are
// of use.
func Format() string {
	var b strings.Builder
	for _, name := range fieldNames[1:] {
		fmt.Fprintf(&b, "${%s} ", name)
	}
	return strings.TrimSpace(b.String())
}

// absent is how a record writes a missing value.
const absent = "-"

// status is what a line says of itself.
type status uint8

const (
	statusRecord status = iota
	statusNoData
	statusSkipped
)

// The bounds of times: a flow log of before VPCs existed, or of a clock gone wrong, tells nothing.
const (
	earliest = 1_230_768_000 // 2009-01-01
	latest   = 4_102_444_800 // 2100-01-01
)

// values are the texts of one line, by field.
type values [fieldCount]string

// record makes a record, or a gap, of the values.
func (v *values) record(r *flows.Record, g *flows.Gap) (status, error) {
	for i := range v {
		if v[i] == absent {
			v[i] = ""
		}
	}
	begin, err := v.time(start, 0)
	if err != nil {
		return 0, err
	}
	finish, err := v.time(end, begin)
	if err != nil {
		return 0, err
	}
	if finish < begin {
		return 0, v.wrong(end, "a time that is not before start")
	}
	switch v[logStatus] {
	case "NODATA", "SKIPDATA":
		*g = flows.Gap{Interface: v[interfaceID], Start: time.Unix(begin, 0).UTC(), End: time.Unix(finish, 0).UTC(), Lost: v[logStatus] == "SKIPDATA"}
		if g.Lost {
			return statusSkipped, nil
		}
		return statusNoData, nil
	case "OK", "":
	default:
		return 0, v.wrong(logStatus, "OK, NODATA or SKIPDATA")
	}
	*r = flows.Record{
		Start: time.Unix(begin, 0).UTC(), End: time.Unix(finish, 0).UTC(), Account: v[accountID], Region: v[region], Interface: v[interfaceID],
		Refused: v[rejectReason], SourceService: v[pktSrcService], DestinationService: v[pktDstService],
	}
	if r.Interface == "" {
		return 0, v.wrong(interfaceID, "the ID of an interface")
	}
	if r.Source, err = v.address(pktSrcAddr, srcAddr); err != nil {
		return 0, err
	}
	if r.Destination, err = v.address(pktDstAddr, dstAddr); err != nil {
		return 0, err
	}
	if r.Source.Is4() != r.Destination.Is4() {
		return 0, v.wrong(dstAddr, "an address of the family of the source")
	}
	numbers := [...]struct {
		field
		most uint64
		set  func(uint64)
	}{
		{srcPort, 1<<16 - 1, func(n uint64) { r.SourcePort = uint16(n) }},
		{dstPort, 1<<16 - 1, func(n uint64) { r.DestinationPort = uint16(n) }},
		{protocol, 1<<8 - 1, func(n uint64) { r.Protocol = uint8(n) }},
		{packetCount, 1<<62 - 1, func(n uint64) { r.Packets = n }},
		{byteCount, 1<<62 - 1, func(n uint64) { r.Bytes = n }},
		{tcpFlags, 1<<8 - 1, func(n uint64) { v.flags(r, uint8(n)) }},
	}
	for _, f := range numbers {
		n, err := v.number(f.field, f.most)
		if err != nil {
			return 0, err
		}
		f.set(n)
	}
	switch v[action] {
	case "ACCEPT":
		r.Accepted = true
	case "REJECT":
	default:
		return 0, v.wrong(action, "ACCEPT or REJECT")
	}
	switch v[flowDirection] {
	case "ingress", "egress":
		r.Direction = cloud.Direction(v[flowDirection])
	case "":
	default:
		return 0, v.wrong(flowDirection, "ingress or egress")
	}
	return statusRecord, nil
}

// The flags of TCP in a record are the flags of all its packets together. ACK is set only with SYN.
const (
	flagSYN = 2
	flagACK = 16
)

// flags tells which end began the connection, which SYN shows.
func (v *values) flags(r *flows.Record, flags uint8) {
	if r.Protocol != cloud.TCP || flags&flagSYN == 0 {
		return
	}
	r.Begins, r.Fresh = flows.BeginsSource, true
	if flags&flagACK != 0 {
		r.Begins = flows.BeginsDestination
	}
}

func (v *values) time(f field, otherwise int64) (int64, error) {
	if v[f] == "" && f == end {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(v[f], 10, 64)
	if err != nil || n < earliest || n > latest {
		return 0, v.wrong(f, "seconds since 1970")
	}
	return n, nil
}

func (v *values) number(f field, most uint64) (uint64, error) {
	if v[f] == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(v[f], 10, 64)
	if err != nil || n > most {
		return 0, v.wrong(f, fmt.Sprintf("a number of at most %d", most))
	}
	return n, nil
}

// address is the first of some fields that has a value.
func (v *values) address(fields ...field) (netip.Addr, error) {
	for _, f := range fields {
		if v[f] == "" {
			continue
		}
		a, err := netip.ParseAddr(v[f])
		if err != nil || a.Zone() != "" {
			return netip.Addr{}, v.wrong(f, "an IP address")
		}
		return a.Unmap(), nil
	}
	return netip.Addr{}, v.wrong(fields[len(fields)-1], "an IP address")
}

// maxShown bounds what a message repeats of a file.
const maxShown = 40

func (v *values) wrong(f field, want string) error {
	text := v[f]
	if len(text) > maxShown {
		text = text[:maxShown] + "..."
	}
	return fmt.Errorf("%s: %q: want %s", fieldNames[f], text, want)
}
