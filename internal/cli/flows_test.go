package cli

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

	"github.com/nephele-io/nephele/internal/cli/flowscmd"
	"github.com/nephele-io/nephele/internal/flows/judge"
	"github.com/nephele-io/nephele/internal/preview/previewtest"
	"github.com/nephele-io/nephele/internal/sim/aws"
	simazure "github.com/nephele-io/nephele/internal/sim/azure"
	"github.com/nephele-io/nephele/internal/sim/azure/build"
	simlog "github.com/nephele-io/nephele/internal/sim/flowlog"
	"github.com/nephele-io/nephele/internal/sim/world"
)

// flowsArgs are the arguments of a command about the example of docs/flows.md.
func flowsArgs(command string, more ...string) []string {
	root := filepath.Join("..", "..")
	return append(strings.Fields(command), append([]string{"-f", filepath.Join(root, "config", "samples", "quickstart.yaml"), "--snapshot", previewtest.HybridCloud}, more...)...)
}

// TestFlowsCommand reads files as a user does: good ones, and what else may lie in a folder.
func TestFlowsCommand(t *testing.T) {
	example := filepath.Join("..", "..", "docs", "examples", "flows")
	whole := func(more ...string) ran { return nephele(t, "", flowsArgs("flows --logs "+example, more...)...) }
	for _, c := range []struct {
		flags string
		code  int
		flows int
	}{
		{"", ExitDone, 5}, {"--denied", ExitDone, 1}, {"--accepted", ExitDone, 4}, {"--to border_02", ExitDone, 3}, {"--from 203.0.113.0/24", ExitDone, 2},
		{"--from quickstart/CVP --port 22", ExitDone, 2}, {"--policy quickstart/switches", ExitDone, 3}, {"--policy switches --denied", ExitDone, 1},
		{"--differs", ExitDone, 0}, {"--affected", ExitNo, 1}, {"--limit 2", ExitDone, 2}, {"--since 2026-03-01T12:01:30Z", ExitDone, 2}, {"--minutes", ExitDone, 5},
		{"--since 1d", ExitDone, 0},
	} {
		r := whole(append(strings.Fields(c.flags), "-o", "json")...)
		var got flowscmd.Answer
		if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != c.code || len(got.Flows) != c.flows {
			t.Errorf("%s: exit %d, want %d; %d flows, want %d; %v\n%s", c.flags, r.code, c.code, len(got.Flows), c.flows, err, r.err)
		}
	}
	for flags, want := range map[string]string{
		"--logs /nowhere/at/all": "--logs: lstat /nowhere/at/all: no such file or directory",
		"--logs " + t.TempDir():  "there are no files in",
		"--since yesterday":      `--since "yesterday": want how long ago, such as 30m, 12h or 7d, or a time`,
		"--denied --accepted":    "--denied and --accepted: give one of them",
		"-o xml":                 `--output "xml": want table or json`,
	} {
		logs := []string{"--logs", example}
		if strings.HasPrefix(flags, "--logs") {
			logs = nil
		}
		if r := nephele(t, "", flowsArgs("flows", append(logs, strings.Fields(flags)...)...)...); r.code != ExitBadInput || !strings.Contains(r.err, want) {
			t.Errorf("%s: exit %d: %s; want %q", flags, r.code, r.err, want)
		}
	}
	if r := nephele(t, "", flowsArgs("flows")...); r.code != ExitBadInput || !strings.Contains(r.err, "--filename: it is about flow logs; give --logs") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
	logs := t.TempDir()
	for name, text := range map[string]string{
		"broken.parquet": "PAR1 and nothing", "half.log.gz": "\x1f\x8b\x08\x00", "AWSLogs/other.log": "2 1 eni-1 - - - - - - - 1772366400 1772366400 - NODATA\n",
		"notes.txt": "these are notes\n", ".hidden": "x", "AWSLogs/bad.log": "2 123456789012 eni-0a 10.0.0.9\n",
	} {
		if err := os.MkdirAll(filepath.Join(logs, "AWSLogs"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(logs, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := nephele(t, "", flowsArgs("flows", "--logs", logs, "--logs", example)...)
	for _, want := range []string{"broken.parquet: a broken file of Parquet", "half.log.gz: not a whole gzip file", "notes.txt: line 1: the flow log lacks the fields", "bad.log: line 1: 4 fields: want 14: left out"} {
		if r.code != ExitDone || !strings.Contains(r.err, want) || strings.Contains(r.err, ".hidden") || strings.Count(r.stdout, "\n") != 6 {
			t.Errorf("exit %d, no %q in\n%s%s", r.code, want, r.err, r.stdout)
		}
	}
	if r := nephele(t, "", flowsArgs("flows", "--logs", filepath.Join(logs, "broken.parquet"))...); r.code != ExitBadInput || !strings.Contains(r.err, "a broken file of Parquet") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

// TestFlowsRules counts what rules decided, and names those that decided nothing.
func TestFlowsRules(t *testing.T) {
	example := filepath.Join("..", "..", "docs", "examples", "flows")
	r := nephele(t, "", flowsArgs("flows --rules --logs "+example)...)
	for _, want := range []string{
		"2            03-01 12:01  allow by rule \"management\" (AntreaNetworkPolicy quickstart/switches", "own group Arista Demo, egress all to 0.0.0.0/0",
		"0            -            allow by rule \"ping\"",
	} {
		if r.code != ExitDone || !strings.Contains(r.stdout, want) {
			t.Errorf("exit %d, no %q in\n%s%s", r.code, want, r.stdout, r.err)
		}
	}
	unused := nephele(t, "", flowsArgs("flows --unused --logs "+example)...)
	if unused.code != ExitDone || strings.Contains(unused.stdout, "management") || !strings.Contains(unused.stdout, "ping") || !strings.Contains(unused.err, "seen from 2026-03-01T12:00:00Z to 2026-03-01T12:03:00Z") {
		t.Errorf("exit %d:\n%s%s", unused.code, unused.stdout, unused.err)
	}
}

// TestRecommendCommand writes files that "nephele plan" takes.
func TestRecommendCommand(t *testing.T) {
	example, out := filepath.Join("..", "..", "docs", "examples", "flows"), filepath.Join(t.TempDir(), "out")
	r := nephele(t, "", flowsArgs("recommend quickstart --logs "+example, "-o", out)...)
	if r.code != ExitNo || !strings.Contains(r.err, "Of 3 flows that were seen and are allowed today they cut 0; of those that were dropped they open 1") {
		t.Fatalf("exit %d: %s", r.code, r.err)
	}
	files, err := filepath.Glob(filepath.Join(out, "*.yaml"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v: %v", err, files)
	}
	if plan := nephele(t, "", flowsArgs("plan", "-f", out, "--staged")...); plan.code == ExitBadInput {
		t.Errorf("exit %d: %s", plan.code, plan.err)
	}
	for args, want := range map[string]string{
		"recommend quickstart":                                        "--filename: it is about flow logs",
		"recommend quickstart --priority 0 --logs " + example:         "--priority 0: want a number from 1 to 10000",
		"recommend quickstart --outside everywhere --logs " + example: `--outside "everywhere": want a range`,
	} {
		if r := nephele(t, "", flowsArgs(args)...); r.code != ExitBadInput || !strings.Contains(r.err, want) {
			t.Errorf("%s: exit %d: %s; want %q", args, r.code, r.err, want)
		}
	}
	if r := nephele(t, "", flowsArgs("recommend nobody --logs "+example)...); r.code != ExitNo || !strings.Contains(r.err, "nothing was seen that machines of namespace nobody let in") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

// TestFlowsOfAzure: a log of a virtual network is judged by the machine's own security group, and
// the rule that the cloud names is told beside.
func TestFlowsOfAzure(t *testing.T) {
	b := build.New("11111111-2222-4333-8444-555555555555", "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee", "westeurope")
	b.Principal("nephele", "secret")
	nsg := b.SecurityGroup("shop", "nsg-web", build.Rule("https", "Inbound", 100, "Allow", "Tcp", "Internet", "", "443"))
	b.Machine("shop", "web-1", b.Network("shop", "vnet-a", []string{"10.1.0.0/16"}, []string{"web", "10.1.1.0/24"})+"/subnets/web", "10.1.1.4", nsg)
	w, err := world.New(aws.State{Azure: &b.State}, world.Options{Clock: time.Now, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	w.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
		p := c.Principals()[0]
		rows, _ = c.GraphRows(&p, "resources", nil)
	})
	raw, err := json.Marshal(map[string]any{"data": rows, "count": len(rows), "total_records": len(rows)})
	if err != nil {
		t.Fatal(err)
	}
	mac := regexp.MustCompile(`"macAddress":"([^"]*)"`).FindSubmatch(raw)
	if mac == nil {
		t.Fatal("the machine has no MAC address")
	}
	log := file(t, "PT1H.json", `{"records": [{"flowLogVersion": 4, "macAddress": "`+strings.ReplaceAll(string(mac[1]), "-", "")+`", "flowRecords": {"flows": [{"aclID": "nsg", "flowGroups": [
		{"rule": "UserRule_https", "flowTuples": ["1772366400599,198.51.100.7,10.1.1.4,40000,443,6,I,B,NX,0,0,0,0", "1772366410599,198.51.100.7,10.1.1.4,40000,443,6,I,E,NX,9,900,8,8000"]},
		{"rule": "DefaultRule_DenyAllInBound", "flowTuples": ["1772366400599,198.51.100.7,10.1.1.4,40001,22,6,I,D,NX,0,0,0,0"]},
		{"rule": "UserRule_by-hand", "flowTuples": ["1772366400599,198.51.100.7,10.1.1.4,40002,3389,6,I,B,NX,0,0,0,0"]}]}]}}]}`)
	r := nephele(t, azureManifests, "flows", "-f", "-", "--snapshot", file(t, "graph.json", string(raw)), "--logs", log, "-o", "json")
	var got flowscmd.Answer
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != ExitDone || len(got.Flows) != 3 {
		t.Fatalf("exit %d, %v: %s%s", r.code, err, r.stdout, r.err)
	}
	for _, x := range got.Flows {
		want := map[uint16]struct {
			verdict judge.Verdict
			differs judge.Disagreement
			rule    string
			bytes   uint64
		}{443: {judge.Allow, judge.Agrees, "UserRule_https", 900}, 22: {judge.Drop, judge.Agrees, "DefaultRule_DenyAllInBound", 0}, 3389: {judge.Drop, judge.Leaks, "UserRule_by-hand", 0}}[x.Port]
		if x.Verdict != want.verdict || x.Differs != want.differs || x.CloudRule != want.rule || x.Bytes != want.bytes || x.By.Cause == judge.ByUnknown || x.To.VM == nil {
			t.Errorf("%+v, want %+v", x, want)
		}
	}
}

// TestFlowsAreJudgedAsAzureDid: in random networks, what the simulator writes from its own verdicts
// is judged as the simulator did. The answer has the rule that the cloud names; our rules come from
// the group without overlaps, and have no names.
func TestFlowsAreJudgedAsAzureDid(t *testing.T) {
	const subscription, machines = "aaaaaaaa-bbbb-4ccc-8ddd-eeeeeeeeeeee", 6
	judged, denied, rules := 0, 0, map[string]bool{}
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 51))
		b := build.New("11111111-2222-4333-8444-555555555555", subscription, "westeurope")
		b.Principal("nephele", "secret")
		vnet := b.Network("shop", "vnet-a", []string{"10.1.0.0/16"}, []string{"web", "10.1.1.0/24"})
		ports := []int{22, 80, 443, 5432}
		var nics []string
		address := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, 1, byte(4 + i)}) }
		manifests := strings.Replace(azureManifests[:strings.Index(azureManifests, "---\napiVersion: crd.antrea.io")], "{matchName: web-1}", "{matchName: web-0}", 1)
		for i := range machines {
			var list []map[string]any
			for n := range r.IntN(5) {
				source := []string{"", "Internet", "VirtualNetwork", "10.1.1.0/29", "203.0.113.0/24"}[r.IntN(5)]
				list = append(list, build.Rule(fmt.Sprintf("r%d", n), []string{"Inbound", "Outbound"}[r.IntN(2)], 100+10*n, []string{"Allow", "Deny"}[r.IntN(2)], []string{"Tcp", "*", "Udp"}[r.IntN(3)],
					source, "", fmt.Sprint(ports[r.IntN(len(ports))])))
			}
			_, nic := b.Machine("shop", fmt.Sprintf("web-%d", i), vnet+"/subnets/web", address(i).String(), b.SecurityGroup("shop", fmt.Sprintf("nsg-%d", i), list...))
			nics = append(nics, nic)
			if i > 0 {
				manifests += fmt.Sprintf("---\napiVersion: crd.cloud.antrea.io/v1alpha1\nkind: CloudEntitySelector\nmetadata: {name: s%d, namespace: vms}\n"+
					"spec: {accountName: azure, accountNamespace: vms, vmSelector: [{vmMatch: [{matchName: web-%d}]}]}\n", i, i)
			}
		}
		w, err := world.New(aws.State{Azure: &b.State}, world.Options{Clock: time.Now, Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		folder, at := t.TempDir(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		var raw []byte
		w.ReadAzure(func(c *simazure.Cloud, _ time.Time) {
			p := c.Principals()[0]
			rows, _ := c.GraphRows(&p, "resources", nil)
			if raw, err = json.Marshal(map[string]any{"data": rows, "count": len(rows), "total_records": len(rows)}); err != nil {
				t.Fatal(err)
			}
			macs := map[string]string{}
			for _, row := range rows {
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
			for name, content := range simlog.DeliverToContainer(tuples, subscription, "westeurope_vnet-a") {
				path := filepath.Join(folder, filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
		said := nephele(t, manifests, "flows", "-f", "-", "--snapshot", file(t, "graph.json", string(raw)), "--logs", folder, "-o", "json")
		var got flowscmd.Answer
		if err := json.Unmarshal([]byte(said.stdout), &got); err != nil || said.code != ExitDone {
			t.Fatalf("exit %d, %v: %.2000s%s", said.code, err, said.stdout, said.err)
		}
		for _, x := range got.Flows {
			judged++
			name := x.CloudRule[strings.Index(x.CloudRule, "_")+1:]
			rules[name] = true
			if !x.Accepted {
				denied++
			}
			if x.Differs != judge.Agrees || x.Verdict == judge.Unknown {
				t.Errorf("seed %d: %+v", seed, x)
			}
		}
	}
	t.Logf("%d rows, %d denied, %d rules", judged, denied, len(rules))
	if judged < 800 || denied < 100 || len(rules) < 7 {
		t.Errorf("only %d rows, %d of them denied, by %d rules", judged, denied, len(rules))
	}
}
