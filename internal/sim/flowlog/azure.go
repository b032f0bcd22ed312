package flowlog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/document"
)

// This file writes flow logs of virtual networks of Azure. The source is Microsoft's page on them
// (https://learn.microsoft.com/azure/network-watcher/vnet-flow-logs-overview).

// AzureConnection is one connection, or the attempt at one.
type AzureConnection struct {
	azure.Flow
	// Client and Server are the addresses of the ends, ClientMAC and ServerMAC the MAC addresses of
	// their interfaces; empty for an end outside.
	Client, Server       netip.Addr
	ClientMAC, ServerMAC string
	Start                time.Time
	// Packets and Bytes are the counts of either way.
	Packets, Bytes int
}

// Tuple is what one interface reports a connection.
type Tuple struct {
	MAC, ACL, Rule string
	At             time.Time
	text           string
}

// SeenByAzure is what the interfaces on the way of a connection tell of it: which rule of which
// group decided at each, by the simulator's own verdict.
func SeenByAzure(c *azure.Cloud, x AzureConnection) ([]Tuple, error) {
	var out []Tuple
	for _, leaves := range []bool{true, false} {
		mac, direction := x.ServerMAC, "I"
		if leaves {
			mac, direction = x.ClientMAC, "O"
		}
		if mac == "" {
			continue
		}
		v, err := c.Verdicts().Half(x.Flow, leaves)
		if err != nil {
			return nil, err
		}
		acl, rule := "unspecified", "unspecified"
		if n := len(v.Steps); n > 0 {
			acl, rule = v.Steps[n-1].Group, "UserRule_"+v.Steps[n-1].Rule
			if document.IsDefaultRule(v.Steps[n-1].Rule) {
				rule = "DefaultRule_" + v.Steps[n-1].Rule
			}
		}
		tell := func(at time.Time, state string, packets, bytes int) {
			out = append(out, Tuple{mac, acl, rule, at, fmt.Sprintf("%d,%s,%s,%d,%d,%d,%s,%s,NX,%d,%d,%d,%d",
				at.UnixMilli(), x.Client, x.Server, x.SrcPort, x.Port, x.Protocol, direction, state, packets, bytes, packets, bytes)})
		}
		if !v.Allowed {
			tell(x.Start, "D", 0, 0)
			break // nothing comes to the other end
		}
		tell(x.Start, "B", 0, 0)
		tell(x.Start.Add(20*time.Second), "E", x.Packets, x.Bytes)
	}
	return out, nil
}

// DeliverToContainer puts tuples into the blobs of a container, by their names: one for each
// interface and hour, with a record for each minute.
func DeliverToContainer(tuples []Tuple, subscription, network string) map[string][]byte {
	type group struct {
		Rule   string   `json:"rule"`
		Tuples []string `json:"flowTuples"`
	}
	type acl struct {
		ID     string  `json:"aclID"`
		Groups []group `json:"flowGroups"`
	}
	type record struct {
		Time     time.Time `json:"time"`
		Version  int       `json:"flowLogVersion"`
		GUID     string    `json:"flowLogGUID"`
		MAC      string    `json:"macAddress"`
		Category string    `json:"category"`
		Records  struct {
			Flows []acl `json:"flows"`
		} `json:"flowRecords"`
	}
	sorted := slices.Clone(tuples)
	slices.SortStableFunc(sorted, func(a, b Tuple) int {
		return cmp.Or(
			cmp.Compare(a.MAC, b.MAC), a.At.Truncate(time.Minute).Compare(b.At.Truncate(time.Minute)), cmp.Compare(a.ACL, b.ACL),
			cmp.Compare(a.Rule, b.Rule), a.At.Compare(b.At),
		)
	})
	blobs := map[string][]record{}
	for _, x := range sorted {
		mac := strings.ToUpper(strings.NewReplacer("-", "", ":", "").Replace(x.MAC))
		name := fmt.Sprintf("flowLogResourceID=/%s_NETWORKWATCHERRG/NETWORKWATCHER_%s/%sm=00/macAddress=%s/PT1H.json",
			strings.ToUpper(subscription), strings.ToUpper(network), x.At.UTC().Format("y=2006/m=01/d=02/h=15/"), mac)
		list, minute := blobs[name], x.At.UTC().Truncate(time.Minute)
		if n := len(list); n == 0 || !list[n-1].Time.Equal(minute) {
			list = append(list, record{Time: minute, Version: 4, GUID: "00000000-0000-4000-8000-000000000001", MAC: mac, Category: "FlowLogFlowEvent"})
		}
		r := &list[len(list)-1]
		if n := len(r.Records.Flows); n == 0 || r.Records.Flows[n-1].ID != x.ACL {
			r.Records.Flows = append(r.Records.Flows, acl{ID: x.ACL})
		}
		a := &r.Records.Flows[len(r.Records.Flows)-1]
		if n := len(a.Groups); n == 0 || a.Groups[n-1].Rule != x.Rule {
			a.Groups = append(a.Groups, group{Rule: x.Rule})
		}
		g := &a.Groups[len(a.Groups)-1]
		g.Tuples = append(g.Tuples, x.text)
		blobs[name] = list
	}
	out := make(map[string][]byte, len(blobs))
	for name, list := range blobs {
		raw, err := json.Marshal(map[string]any{"records": list})
		if err != nil { // of values that are ours
			panic(err)
		}
		out[name] = raw
	}
	return out
}
