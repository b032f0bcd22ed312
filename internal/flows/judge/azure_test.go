package judge_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nephele-io/nephele/internal/cloud/azure"
	"github.com/nephele-io/nephele/internal/cloud/azure/flowlog"
	"github.com/nephele-io/nephele/internal/flows"
	"github.com/nephele-io/nephele/internal/flows/judge"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim/aws"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	simlog "github.com/nephele-io/nephele/internal/sim/flowlog"
	"github.com/nephele-io/nephele/internal/sim/world"
)

const subscription = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee"

// azureAccount imports machines named so, each by a selector of its own.
func azureAccount(machines ...string) string {
	var out strings.Builder
	out.WriteString("apiVersion: crd.cloud.antrea.io/v1alpha1\nkind: CloudProviderAccount\nmetadata: {name: azure, namespace: vms}\n" +
		"spec: {azureConfig: {secretRef: {name: azure, namespace: vms, key: credentials}, region: [westeurope]}}\n")
	for i, m := range machines {
		fmt.Fprintf(&out, "---\napiVersion: crd.cloud.antrea.io/v1alpha1\nkind: CloudEntitySelector\nmetadata: {name: s%d, namespace: vms}\n"+
			"spec: {accountName: azure, accountNamespace: vms, vmSelector: [{vmMatch: [{matchName: %s}]}]}\n", i, m)
	}
	return out.String()
}

const azureSSH = `---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: ssh, namespace: vms}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {nephe.antrea.io/cloud-vm-name: web-1}}}]
  ingress:
  - {name: ssh, action: Allow, from: [{ipBlock: {cidr: 10.0.0.0/8}}], ports: [{port: 22}]}
`

// described is what Resource Graph says of a subscription.
func described(t *testing.T, c *simazure.Cloud) []byte {
	t.Helper()
	p := c.Principals()[0]
	rows, _ := c.GraphRows(&p, "resources", nil)
	raw, err := json.Marshal(map[string]any{"data": rows, "count": len(rows), "total_records": len(rows)})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// judged reads logs and judges them by manifests and a description of the subscription.
func judged(t *testing.T, graph []byte, manifests string, logs map[string][]byte) ([]flows.Row, []judge.Judgement) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "graph.json")
	if err := os.WriteFile(file, graph, 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := azure.ReadDescription(file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := previewtest.Planner(t, d.Account(subscription, nil, time.Now), manifests).ReadAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sum := flows.NewSummer(func(string) []netip.Addr { return nil }, 0)
	for name, raw := range logs {
		report, err := flowlog.Read(strings.NewReader(string(raw)), flows.Sink{
			Record: func(r *flows.Record) error { sum.Add(r); return nil },
			Gap:    func(*flows.Gap) error { return nil },
		})
		if err != nil || report.Bad > 0 {
			t.Fatalf("%s: %v, %+v", name, err, report)
		}
	}
	rows, j := sum.Take(time.Time{}), judge.New(c.Computed)
	out := make([]judge.Judgement, len(rows))
	for i := range rows {
		out[i] = j.Judge(&rows[i])
	}
	return rows, out
}

// TestFlowsOfAzure: a log of a virtual network is judged by the machine's own security group, and
// the rule that the cloud names is reported beside.
func TestFlowsOfAzure(t *testing.T) {
	b := build.New("11111111-2222-4333-8444-555555555555", subscription, "westeurope")
	b.Principal("nephele", "secret")
	nsg := b.SecurityGroup("shop", "nsg-web", build.Rule("https", "Inbound", 100, "Allow", "Tcp", "Internet", "", "443"))
	b.Machine("shop", "web-1", b.Network("shop", "vnet-a", []string{"10.1.0.0/16"}, []string{"web", "10.1.1.0/24"})+"/subnets/web", "10.1.1.4", nsg)
	w, err := world.New(aws.State{Azure: &b.State}, world.Options{Clock: time.Now, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var graph []byte
	w.ReadAzure(func(c *simazure.Cloud, _ time.Time) { graph = described(t, c) })
	mac := regexp.MustCompile(`"macAddress":"([^"]*)"`).FindSubmatch(graph)
	if mac == nil {
		t.Fatal("the machine has no MAC address")
	}
	log := `{"records": [{"flowLogVersion": 4, "macAddress": "` + strings.ReplaceAll(string(mac[1]), "-", "") + `", "flowRecords": {"flows": [{"aclID": "nsg", "flowGroups": [
		{"rule": "UserRule_https", "flowTuples": ["1772366400599,198.51.100.7,10.1.1.4,40000,443,6,I,B,NX,0,0,0,0", "1772366410599,198.51.100.7,10.1.1.4,40000,443,6,I,E,NX,9,900,8,8000"]},
		{"rule": "DefaultRule_DenyAllInBound", "flowTuples": ["1772366400599,198.51.100.7,10.1.1.4,40001,22,6,I,D,NX,0,0,0,0"]},
		{"rule": "UserRule_by-hand", "flowTuples": ["1772366400599,198.51.100.7,10.1.1.4,40002,3389,6,I,B,NX,0,0,0,0"]}]}]}}]}`
	rows, got := judged(t, graph, azureAccount("web-1")+azureSSH, map[string][]byte{"PT1H.json": []byte(log)})
	if len(rows) != 3 {
		t.Fatalf("%+v", rows)
	}
	for i, x := range got {
		want := map[uint16]struct {
			verdict judge.Verdict
			differs judge.Disagreement
			rule    string
			bytes   uint64
		}{443: {judge.Allow, judge.Agrees, "UserRule_https", 900}, 22: {judge.Drop, judge.Agrees, "DefaultRule_DenyAllInBound", 0}, 3389: {judge.Drop, judge.Leaks, "UserRule_by-hand", 0}}[rows[i].Port]
		if x.Verdict != want.verdict || x.Differs != want.differs || rows[i].Rule != want.rule || rows[i].Bytes != want.bytes || x.By.Cause == judge.ByUnknown || x.To.VM == nil {
			t.Errorf("%+v, %+v, want %+v", rows[i], x, want)
		}
	}
}

// TestFlowsAreJudgedAsAzureDid: in random networks, what the simulator writes from its own verdicts
// is judged as the simulator did. The row has the rule that the cloud names; our rules come from
// the group without overlaps, and have no names.
func TestFlowsAreJudgedAsAzureDid(t *testing.T) {
	const machines = 6
	all, denied, rules := 0, 0, map[string]bool{}
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 51))
		b := build.New("11111111-2222-4333-8444-555555555555", subscription, "westeurope")
		b.Principal("nephele", "secret")
		vnet := b.Network("shop", "vnet-a", []string{"10.1.0.0/16"}, []string{"web", "10.1.1.0/24"})
		ports := []int{22, 80, 443, 5432}
		var nics, names []string
		address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, 1, byte(4 + i)}) }
		for i := range machines {
			var list []map[string]any
			for n := range r.IntN(5) {
				source := []string{"", "Internet", "VirtualNetwork", "10.1.1.0/29", "203.0.113.0/24"}[r.IntN(5)]
				list = append(list, build.Rule(fmt.Sprintf("r%d", n), []string{"Inbound", "Outbound"}[r.IntN(2)], 100+10*n, []string{"Allow", "Deny"}[r.IntN(2)], []string{"Tcp", "*", "Udp"}[r.IntN(3)],
					source, "", fmt.Sprint(ports[r.IntN(len(ports))])))
			}
			names = append(names, fmt.Sprintf("web-%d", i))
			_, nic := b.Machine("shop", names[i], vnet+"/subnets/web", address(i).String(), b.SecurityGroup("shop", fmt.Sprintf("nsg-%d", i), list...))
			nics = append(nics, nic)
		}
		w, err := world.New(aws.State{Azure: &b.State}, world.Options{Clock: time.Now, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		at, logs := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), map[string][]byte{}
		var graph []byte
		w.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
			graph = described(t, c)
			var document struct{ Data []map[string]any }
			if err := json.Unmarshal(graph, &document); err != nil {
				t.Fatal(err)
			}
			macs := map[string]string{}
			for _, row := range document.Data {
				id, _ := row["id"].(string)
				if properties, ok := row["properties"].(map[string]any); ok && properties["macAddress"] != nil {
					macs[strings.ToLower(id)] = fmt.Sprint(properties["macAddress"])
				}
			}
			var tuples []simlog.Tuple
			for n := range 120 {
				x := simlog.AzureConnection{Start: at.Add(time.Duration(n) * time.Second), Packets: 5, Bytes: 500}
				from, to := r.IntN(machines+1)-1, r.IntN(machines)
				x.Server, x.ServerMAC, x.Dst = address(to), macs[strings.ToLower(nics[to])], simazure.End{NIC: nics[to]}
				if x.Client = netip.AddrFrom4([4]byte{203, 0, 113, byte(1 + r.IntN(250))}); from >= 0 {
					x.Client, x.ClientMAC, x.Src = address(from), macs[strings.ToLower(nics[from])], simazure.End{NIC: nics[from]}
				} else {
					x.Src = simazure.End{Addr: x.Client}
				}
				if from == to {
					continue
				}
				x.Protocol, x.Port, x.SrcPort = []int{6, 17}[r.IntN(2)], ports[r.IntN(len(ports))], 40000+n
				seen, err := simlog.SeenByAzure(c, x)
				if err != nil {
					t.Fatal(err)
				}
				tuples = append(tuples, seen...)
			}
			logs = simlog.DeliverToContainer(tuples, subscription, "westeurope_vnet-a")
		})
		rows, got := judged(t, graph, azureAccount(names...), logs)
		for i, x := range got {
			all++
			rules[rows[i].Rule[strings.Index(rows[i].Rule, "_")+1:]] = true
			if !rows[i].Accepted {
				denied++
			}
			if x.Differs != judge.Agrees || x.Verdict == judge.Unknown {
				t.Errorf("seed %d: %+v: %+v", seed, rows[i], x)
			}
		}
	}
	t.Logf("%d rows, %d denied, %d rules", all, denied, len(rules))
	if all < 800 || denied < 100 || len(rules) < 7 {
		t.Errorf("only %d rows, %d of them denied, by %d rules", all, denied, len(rules))
	}
}
