// Package flowlog reads flow logs of virtual networks of Azure: the JSON files that Network Watcher
// keeps for each interface and hour.
//
// It owns the format
// (https://learn.microsoft.com/azure/network-watcher/vnet-flow-logs-overview#log-format) and
// nothing else. It promises that a bad tuple costs that tuple only, that every tuple left out is
// counted with the reason, and that memory is bounded whatever a file holds. A file that is still
// being written ends where it ends.
//
// Functions may be called by many goroutines at once.
package flowlog

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/cloud"
	"github.com/nephele-io/nephele/internal/flows"
)

// The bounds of what is read.
const (
	// largestFile is that of a file, in bytes. An interface with 100 connections a second has about
	// 70 MB in an hour.
	largestFile = 1 << 30
	// longestTuple is that of one tuple, in bytes.
	longestTuple = 512
)

// ErrUnfinished says that a file ends before its JSON does, as one that is still being written.
var ErrUnfinished = errors.New("the file ends in the middle: it is still being written, or was cut")

// record is one entry of a file: what an interface saw in about a minute.
type record struct {
	MAC     string `json:"macAddress"`
	Version int    `json:"flowLogVersion"`
	Flows   struct {
		Flows []struct {
			ACL    string `json:"aclID"`
			Groups []struct {
				Rule   string   `json:"rule"`
				Tuples []string `json:"flowTuples"`
			} `json:"flowGroups"`
		} `json:"flows"`
	} `json:"flowRecords"`
}

// Read reads one file. The error says why the file could not be read to its end; what was read
// before stays.
func Read(in io.Reader, sink flows.Sink) (flows.Report, error) {
	var report flows.Report
	d := json.NewDecoder(io.LimitReader(in, largestFile))
	if err := begin(d); err != nil {
		return report, err
	}
	for number := 1; d.More(); number++ {
		var r record
		if err := d.Decode(&r); err != nil {
			return report, broken(number, err)
		}
		if r.Version != 4 {
			report.Leave(placeOf(number), fmt.Errorf("flowLogVersion %d: want 4, which flow logs of virtual networks have", r.Version))
			continue
		}
		mac, err := macOf(r.MAC)
		if err != nil {
			report.Leave(placeOf(number), err)
			continue
		}
		if err := r.take(mac, number, &report, sink); err != nil {
			return report, err
		}
	}
	if _, err := d.Token(); err != nil {
		return report, broken(0, err)
	}
	return report, nil
}

// begin reads up to the first record.
func begin(d *json.Decoder) error {
	for _, want := range []json.Token{json.Delim('{'), "records", json.Delim('[')} {
		got, err := d.Token()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return ErrUnfinished
		}
		if err != nil || got != want {
			return errors.New(`no flow log of a virtual network: want {"records": [...]}`)
		}
	}
	return nil
}

func broken(number int, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrUnfinished
	}
	return fmt.Errorf("%s: %w", placeOf(number), err)
}

func placeOf(number int) string { return "record " + strconv.Itoa(number) }

// macOf is a MAC address as interfaces have it: the log has it without separators.
func macOf(text string) (string, error) {
	raw, err := hex.DecodeString(strings.NewReplacer(":", "", "-", "").Replace(text))
	if err != nil || len(raw) != 6 {
		return "", fmt.Errorf("macAddress %q: want 12 hexadecimal digits", short(text))
	}
	parts := make([]string, len(raw))
	for i, b := range raw {
		parts[i] = hex.EncodeToString([]byte{b})
	}
	return strings.Join(parts, ":"), nil
}

// take hands on the tuples of a record. The error is that of the sink.
func (r *record) take(mac string, number int, report *flows.Report, sink flows.Sink) error {
	var out flows.Record
	for _, f := range r.Flows.Flows {
		for _, g := range f.Groups {
			for i, tuple := range g.Tuples {
				if err := parse(tuple, &out); err != nil {
					report.Leave(fmt.Sprintf("%s, rule %s, tuple %d", placeOf(number), short(g.Rule), i+1), err)
					continue
				}
				out.Interface, out.ACL, out.Rule = mac, f.ACL, g.Rule
				report.Records++
				if err := sink.Record(&out); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// The fields of a tuple, in order.
const (
	fieldTime = iota
	fieldSource
	fieldDestination
	fieldSourcePort
	fieldPort
	fieldProtocol
	fieldDirection
	fieldState
	fieldEncryption
	fieldPackets
	fieldBytes
	fieldReplyPackets
	fieldReplyBytes
	fieldCount
)

var fieldNames = [fieldCount]string{
	"time", "source", "destination", "source port", "destination port", "protocol", "direction", "state", "encryption", "packets sent", "bytes sent",
	"packets received", "bytes received",
}

// The bounds of times, in milliseconds since 1970.
const (
	earliest = 1_262_304_000_000 // 2010-01-01
	latest   = 4_102_444_800_000 // 2100-01-01
)

// parse reads a tuple. The source is the end that began the connection.
func parse(tuple string, r *flows.Record) error {
	if len(tuple) > longestTuple {
		return fmt.Errorf("longer than %d bytes", longestTuple)
	}
	words := strings.Split(tuple, ",")
	if len(words) != fieldCount {
		return fmt.Errorf("%d fields: want %d", len(words), fieldCount)
	}
	wrong := func(f int, want string) error {
		return fmt.Errorf("%s: %q: want %s", fieldNames[f], short(words[f]), want)
	}
	at, err := strconv.ParseInt(words[fieldTime], 10, 64)
	if err != nil || at < earliest || at > latest {
		return wrong(fieldTime, "milliseconds since 1970")
	}
	*r = flows.Record{Begins: flows.BeginsSource, Accepted: true}
	r.Start = time.UnixMilli(at).UTC()
	r.End = r.Start
	for f, into := range map[int]*netip.Addr{fieldSource: &r.Source, fieldDestination: &r.Destination} {
		a, err := netip.ParseAddr(words[f])
		if err != nil || a.Zone() != "" {
			return wrong(f, "an IP address")
		}
		*into = a.Unmap()
	}
	if r.Source.Is4() != r.Destination.Is4() {
		return wrong(fieldDestination, "an address of the family of the source")
	}
	var source, port, protocol uint64
	for _, x := range []struct {
		field int
		most  uint64
		into  *uint64
	}{
		{fieldSourcePort, 1<<16 - 1, &source}, {fieldPort, 1<<16 - 1, &port}, {fieldProtocol, 1<<8 - 1, &protocol},
		{fieldPackets, 1<<62 - 1, &r.Packets}, {fieldBytes, 1<<62 - 1, &r.Bytes},
		{fieldReplyPackets, 1<<62 - 1, &r.ReplyPackets}, {fieldReplyBytes, 1<<62 - 1, &r.ReplyBytes},
	} {
		if words[x.field] == "" { // of the beginning of a connection nothing is counted
			continue
		}
		if *x.into, err = strconv.ParseUint(words[x.field], 10, 64); err != nil || *x.into > x.most {
			return wrong(x.field, fmt.Sprintf("a number of at most %d", x.most))
		}
	}
	r.SourcePort, r.DestinationPort, r.Protocol = uint16(source), uint16(port), uint8(protocol)
	switch words[fieldDirection] {
	case "I":
		r.Direction = cloud.Ingress
	case "O":
		r.Direction = cloud.Egress
	default:
		return wrong(fieldDirection, "I or O")
	}
	switch words[fieldState] {
	case "B":
		r.Fresh = true
	case "C", "E":
	case "D":
		r.Fresh, r.Accepted = true, false
	default:
		return wrong(fieldState, "B, C, E or D")
	}
	if !r.Accepted && strings.HasPrefix(words[fieldEncryption], "NX_") {
		r.Refused = words[fieldEncryption]
	}
	return nil
}

// maxShown bounds what a message repeats of a file.
const maxShown = 60

func short(text string) string {
	if len(text) > maxShown {
		return text[:maxShown] + "..."
	}
	return text
}
