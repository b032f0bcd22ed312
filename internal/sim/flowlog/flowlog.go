// Package flowlog writes what interfaces of the simulator see as VPC flow logs of AWS, and as flow
// logs of virtual networks of Azure.
//
// It owns which interface sees which packets of a connection, the lines that tell of them, and how
// files reach a bucket. Package packet has the verdict on a packet. It promises the faults of
// real deliveries where they are asked for: repeated lines, lost windows, and windows without data.
//
// The sources are AWS's pages on flow log records
// (https://docs.aws.amazon.com/vpc/latest/userguide/flow-log-records.html) and on files in S3
// (flow-logs-s3.html there).
//
// Everything is pure: no I/O, no clock, and randomness is passed in.
package flowlog

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// Connection is one connection, or the attempt at one.
type Connection struct {
	packet.Flow
	SourcePort int
	Start      time.Time
	// Packets and Bytes are the counts of either way.
	Packets, Bytes int
	// Running tells that it began before Start, so that no record shows its beginning.
	Running bool
}

// Line is one record.
type Line struct {
	Interface                string
	Egress                   bool
	Source, Destination      netip.Addr
	SourcePort, Port         int
	Protocol, Packets, Bytes int
	Start, End               time.Time
	Accepted                 bool
	Flags                    int
	// Status is OK, NODATA or SKIPDATA.
	Status string
}

// The flags of TCP.
const (
	flagFIN = 1
	flagSYN = 2
	flagACK = 16
	tcp     = 6
)

// Seen is what the interfaces on the way of a connection record. The two ends are interfaces, or
// addresses outside.
func Seen(w *world.World, c Connection) ([]Line, error) {
	v, err := w.Allowed(c.Flow)
	if err != nil {
		return nil, err
	}
	request := Line{
		Source: c.Src.Addr, Destination: c.Dst.Addr, SourcePort: c.SourcePort, Port: c.Port, Protocol: c.Protocol, Packets: c.Packets, Bytes: c.Bytes,
		Start: c.Start, End: c.Start.Add(30 * time.Second), Status: "OK",
	}
	if c.Protocol == tcp && !c.Running {
		request.Flags = flagSYN
	}
	answer := request
	answer.Source, answer.Destination, answer.SourcePort, answer.Port = request.Destination, request.Source, request.Port, request.SourcePort
	if request.Flags != 0 {
		answer.Flags = flagSYN | flagACK
	}
	var out []Line
	add := func(l Line, nic string, egress, accepted bool) {
		if nic == "" {
			return
		}
		l.Interface, l.Egress, l.Accepted = nic, egress, accepted
		out = append(out, l)
	}
	stopped := func(nic string, egress, answer bool) bool {
		s := v.StoppedBy
		return s.NIC != "" && s.NIC == nic && s.Egress == egress && s.Answer == answer
	}
	leaves := v.Egress.Allowed && !stopped(c.Src.NIC, true, false)
	add(request, c.Src.NIC, true, leaves)
	if !leaves || v.Obstacle != "" && v.StoppedBy.NIC == "" {
		return out, nil
	}
	arrives := v.Ingress.Allowed && !stopped(c.Dst.NIC, false, false)
	add(request, c.Dst.NIC, false, arrives)
	if !arrives {
		return out, nil
	}
	answered := !stopped(c.Dst.NIC, true, true)
	add(answer, c.Dst.NIC, true, answered)
	if answered {
		add(answer, c.Src.NIC, false, !stopped(c.Src.NIC, false, true))
	}
	if !v.Allowed { // the answer never comes, so nothing else is sent
		return out, nil
	}
	for i := range out {
		if out[i].Flags != 0 {
			out[i].Flags |= flagFIN
		}
	}
	return out, nil
}

// The formats of lines.
var (
	// defaultFields are version 2, which is what a flow log has unless its maker says otherwise.
	defaultFields = strings.Fields("version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end action log-status")
	// fullFields have what tells the direction and the beginning, in an order of their own, with
	// fields that readers may not know.
	fullFields = strings.Fields("version region az-id flow-direction traffic-path tcp-flags pkt-srcaddr pkt-dstaddr interface-id account-id srcaddr dstaddr " +
		"srcport dstport protocol packets bytes start end action log-status resource-id")
)

// Default returns the fields of version 2, and Full the fields of a later version.
func Default() []string { return slices.Clone(defaultFields) }

// Full is described at Default.
func Full() []string { return slices.Clone(fullFields) }

// Place is where lines are from.
type Place struct{ Account, Region string }

// Header is the first line of a file in a bucket.
func Header(fields []string) string { return strings.Join(fields, " ") + "\n" }

// Text is a record as a line.
func (l Line) Text(p Place, fields []string) string {
	words := make([]string, len(fields))
	for i, f := range fields {
		words[i] = cmp.Or(l.value(p, f), "-")
	}
	return strings.Join(words, " ") + "\n"
}

func (l Line) value(p Place, f string) string {
	switch f {
	case "version":
		return "5"
	case "account-id":
		return p.Account
	case "interface-id":
		return l.Interface
	case "region":
		return p.Region
	case "start":
		return fmt.Sprint(l.Start.Unix())
	case "end":
		return fmt.Sprint(l.End.Unix())
	case "log-status":
		return l.Status
	}
	if l.Status != "OK" {
		return ""
	}
	switch f {
	case "srcaddr", "pkt-srcaddr":
		return l.Source.String()
	case "dstaddr", "pkt-dstaddr":
		return l.Destination.String()
	case "srcport":
		return fmt.Sprint(l.SourcePort)
	case "dstport":
		return fmt.Sprint(l.Port)
	case "protocol":
		return fmt.Sprint(l.Protocol)
	case "packets":
		return fmt.Sprint(l.Packets)
	case "bytes":
		return fmt.Sprint(l.Bytes)
	case "tcp-flags":
		return fmt.Sprint(l.Flags)
	case "action":
		if l.Accepted {
			return "ACCEPT"
		}
		return "REJECT"
	case "flow-direction":
		if l.Egress {
			return "egress"
		}
		return "ingress"
	}
	return ""
}

// Faults are what goes wrong on the way into a bucket. Each number is how many of a thousand.
type Faults struct {
	// Repeated lines are delivered twice, in another file.
	Repeated int
	// Skipped lines are lost, and their window says so. Empty adds windows without data.
	Skipped, Empty int
}

// perFile is how many lines a file has at most.
const perFile = 500

// Deliver puts lines into files as they lie in a bucket, by their keys. Lines of one window may be
// in several files.
func Deliver(lines []Line, p Place, fields []string, f Faults, r *rand.Rand) map[string][]byte {
	var sent []Line
	for _, l := range lines {
		if r.IntN(1000) < f.Skipped {
			sent = append(sent, Line{Interface: l.Interface, Start: l.Start, End: l.End, Status: "SKIPDATA"})
			continue
		}
		sent = append(sent, l)
		if r.IntN(1000) < f.Repeated {
			sent = append(sent, l)
		}
		if r.IntN(1000) < f.Empty {
			sent = append(sent, Line{Interface: l.Interface, Start: l.Start.Add(time.Hour), End: l.End.Add(time.Hour), Status: "NODATA"})
		}
	}
	r.Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
	out := map[string][]byte{}
	for part := range slices.Chunk(sent, perFile) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(Header(fields)))
		for _, l := range part {
			_, _ = z.Write([]byte(l.Text(p, fields)))
		}
		_ = z.Close()
		at := part[0].Start.UTC()
		key := fmt.Sprintf("AWSLogs/%s/vpcflowlogs/%s/%s/%s_vpcflowlogs_%s_fl-0123456789abcdef0_%s_%08x.log.gz",
			p.Account, p.Region, at.Format("2006/01/02"), p.Account, p.Region, at.Format("20060102T1504Z"), r.Uint32())
		out[key] = b.Bytes()
	}
	return out
}
