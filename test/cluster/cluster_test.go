package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/test/e2e/framework"
	e2econfig "k8s.io/kubernetes/test/e2e/framework/config"
	_ "k8s.io/kubernetes/test/e2e/framework/debug/init"
	_ "k8s.io/kubernetes/test/e2e/network"
	_ "k8s.io/kubernetes/test/e2e/network/netpol"
	imageutils "k8s.io/kubernetes/test/utils/image"

	"github.com/nephele-io/nephele/test/cluster"
)

var (
	nephele = flag.String("nephele", "", "the program to test")
	agent   = flag.String("agent", "", "the program for Nodes to test")
	cache   = flag.String("cache", "", "directory of the programs that are built and fetched (default: nephele-cluster in the user's cache directory)")
	proxies = flag.String("proxies", "nftables,iptables", "modes of kube-proxy, each with a cluster of its own whose network is the bridge plugin's; empty for no such cluster")
	network = flag.String("networks", "encap,encap+services+dual,hybrid+services,noEncap+services,encap+services+ipv6", "modes in which the agents make the network, each with a cluster of its own; +services lets them lead to Services, too, in place of kube-proxy; +ipv6 and +dual give the cluster these addresses")
	nodes   = flag.Int("nodes", 4, "how many Nodes there are")
	subnets = flag.Int("subnets", 2, "in how many subnets Nodes take turns")
	shards  = flag.Int("shards", 3, "how many cases run at a time")
	focus   = flag.String("focus", "", "expression: only cases whose names it matches")
	logs    = flag.String("logs", "", "directory for the logs of everything; it is made (default: a temporary one)")
)

// insideEnv tells a process that it is in the namespaces, and has the tools as JSON; casesEnv that
// it is to play cases, and has a batch as JSON.
const (
	insideEnv = "NEPHELE_CLUSTER_TOOLS"
	casesEnv  = "NEPHELE_CLUSTER_CASES"
)

// batch are cases for one process.
type batch struct {
	Names  []string
	Report string
	// Family is the primary one of the cluster, as upstream writes it.
	Family string
	// Nodes is how many Nodes there are: some cases need two.
	Nodes int
}

func TestMain(m *testing.M) {
	if err := cluster.Reap(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if description := os.Getenv(cluster.NodeEnv); description != "" {
		fmt.Fprintln(os.Stderr, cluster.RunNode(description))
		os.Exit(1)
	}
	e2econfig.CopyFlags(e2econfig.Flags, flag.CommandLine)
	framework.RegisterCommonFlags(flag.CommandLine)
	framework.RegisterClusterFlags(flag.CommandLine)
	flag.Parse()
	if os.Getenv(insideEnv) != "" {
		if os.Getenv(casesEnv) == "" {
			if err := cluster.Settle(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
		os.Exit(m.Run())
	}
	if err := outside(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// outside finds the tools, for which there must be a network, and runs the tests in namespaces.
func outside() error {
	if *nephele == "" || *agent == "" {
		return errors.New("no program to test: run \"make cluster\"")
	}
	if *cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		*cache = filepath.Join(dir, "nephele-cluster")
	}
	tools, err := cluster.Find(context.Background(), *cache, func(format string, args ...any) { fmt.Printf(format+"\n", args...) })
	if err != nil {
		return err
	}
	raw, err := json.Marshal(tools)
	if err != nil {
		return err
	}
	return cluster.Enter(insideEnv + "=" + string(raw))
}

// TestUpstreamCases plays the cases about network policies of Kubernetes' own end-to-end tests, all
// but those that need connections by SCTP, against clusters whose policies Nephele enforces.
func TestUpstreamCases(t *testing.T) {
	if os.Getenv(casesEnv) != "" {
		return
	}
	var tools cluster.Tools
	if err := json.Unmarshal([]byte(os.Getenv(insideEnv)), &tools); err != nil {
		t.Fatal(err)
	}
	dir := *logs
	if dir == "" {
		dir = t.TempDir()
	}
	one := func(name string, o cluster.Options, about func(name string) bool) {
		t.Run(name, func(t *testing.T) {
			names, without := selected(t, about)
			t.Logf("%d cases; not played, because they need SCTP in the kernel: %d", len(names), without)
			dir := filepath.Join(dir, name)
			if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			o.Tools, o.Nephele, o.Agent, o.Manifests, o.Dir, o.Nodes, o.Subnets = tools, *nephele, *agent, "../../config", dir, *nodes, *subnets
			o.Images = []string{imageutils.GetE2EImage(imageutils.Agnhost), imageutils.GetE2EImage(imageutils.BusyBox), imageutils.GetE2EImage(imageutils.RegressionIssue74839), imageutils.GetPauseImageName()}
			c, err := cluster.Start(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := c.Stop(); err != nil {
					t.Error(err)
				}
			}()
			t.Logf("%d Nodes in %d subnets, ready after %s", *nodes, *subnets, time.Since(began).Round(time.Second))
			count(t, play(t, c.Kubeconfig, dir, names, o))
			if err := c.Failed(); err != nil {
				t.Error(err)
			}
		})
	}
	for _, proxy := range listed(*proxies) {
		one(proxy, cluster.Options{Proxy: proxy}, aboutPolicies)
	}
	for _, kind := range listed(*network) {
		o, err := optionsOf(kind)
		if err != nil {
			t.Fatal(err)
		}
		one(kind, o, func(name string) bool { return aboutPolicies(name) || aboutNetwork(name, o) })
	}
}

// optionsOf are the options of a cluster whose network the agents make.
func optionsOf(kind string) (cluster.Options, error) {
	words := strings.Split(kind, "+")
	o := cluster.Options{Network: words[0], Proxy: "nftables"}
	for _, word := range words[1:] {
		switch word {
		case "services":
			o.Proxy = ""
		case "ipv6":
			o.Families = []corev1.IPFamily{corev1.IPv6Protocol}
		case "dual":
			o.Families = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
		default:
			return o, fmt.Errorf("-networks: %q: want MODE, and +services, +ipv6 or +dual behind it", kind)
		}
	}
	return o, nil
}

// listed are the words between commas.
func listed(text string) []string {
	return slices.DeleteFunc(strings.Split(text, ","), func(word string) bool { return word == "" })
}

// aboutPolicies are the cases about network policies.
func aboutPolicies(name string) bool {
	return strings.Contains(name, "NetworkPolic") || strings.Contains(name, "Netpol")
}

// aboutNetwork are the cases about the network of Pods and their Services.
func aboutNetwork(name string, o cluster.Options) bool {
	return strings.Contains(name, "[sig-network]") && !needsMore.MatchString(name) && (len(o.Families) > 1 || !strings.Contains(name, "[Feature:IPv6DualStack]"))
}

// needsMore are the cases that need something else: other images than agnhost, as cases about DNS
// itself do; a cloud that balances loads; the internet; kube-proxy; limits of disk space; a cluster
// of their own.
var needsMore = regexp.MustCompile(`\] DNS |\[Feature:(LoadBalancer|Networking-\w+|PerformanceDNS|KubeProxyNFAcct)\]|\] KubeProxy |kube-proxy urls|evicted pods|\[(Serial|Disruptive|Provider:GCE)\]`)

// selected returns the names of the cases to play, and how many are left out for SCTP.
func selected(t *testing.T, about func(name string) bool) (names []string, without int) {
	wanted, err := regexp.Compile(*focus)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range ginkgo.PreviewSpecs("cases").SpecReports {
		switch name := s.FullText(); {
		case s.LeafNodeType != types.NodeTypeIt || !about(name) || !wanted.MatchString(name):
		case slices.Contains(s.Labels(), "Feature:SCTPConnectivity"):
			without++
		default:
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatal("no case has such a name")
	}
	return names, without
}

// play has processes play the cases and returns their reports.
func play(t *testing.T, kubeconfig, dir string, names []string, o cluster.Options) []types.SpecReport {
	family := "ipv4"
	if len(o.Families) > 0 {
		family = strings.ToLower(string(o.Families[0]))
	}
	var mu sync.Mutex
	var all []types.SpecReport
	var running sync.WaitGroup
	for i := range *shards {
		b := batch{Family: family, Nodes: *nodes, Report: filepath.Join(dir, fmt.Sprintf("cases-%d.json", i))}
		for j, name := range names {
			if j%*shards == i {
				b.Names = append(b.Names, name)
			}
		}
		if len(b.Names) == 0 {
			continue
		}
		raw, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		log, err := os.Create(filepath.Join(dir, fmt.Sprintf("cases-%d.log", i)))
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestCases$", "-test.timeout=0", "-kubeconfig="+kubeconfig)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), casesEnv+"="+string(raw)), log, log
		running.Go(func() {
			_ = cmd.Run() // it fails when a case does; the report tells
			_ = log.Close()
			got, err := reports(b.Report)
			if err != nil {
				t.Errorf("%v; see %s", err, log.Name())
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, got...)
		})
	}
	running.Wait()
	return all
}

func reports(path string) ([]types.SpecReport, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var suites []types.Report
	if err := json.Unmarshal(raw, &suites); err != nil {
		return nil, err
	}
	var out []types.SpecReport
	for _, s := range suites {
		for _, r := range s.SpecReports {
			if r.LeafNodeType == types.NodeTypeIt && r.State != types.SpecStateSkipped || r.Failure.Message != "" {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// count says what became of the cases.
func count(t *testing.T, all []types.SpecReport) {
	slices.SortFunc(all, func(a, b types.SpecReport) int { return strings.Compare(a.FullText(), b.FullText()) })
	counts := map[types.SpecState]int{}
	for _, r := range all {
		counts[r.State]++
		t.Logf("%-8s %4.0f s  %s", r.State, r.RunTime.Seconds(), r.FullText())
		if r.State != types.SpecStatePassed {
			t.Errorf("%s: %s: %s", r.FullText(), r.State, r.Failure.Message)
		}
	}
	t.Logf("counts: %v", counts)
}

// TestCases plays the cases of a batch; TestUpstreamCases starts it.
func TestCases(t *testing.T) {
	raw := os.Getenv(casesEnv)
	if raw == "" {
		return
	}
	var b batch
	if err := json.Unmarshal([]byte(raw), &b); err != nil {
		t.Fatal(err)
	}
	framework.TestContext.Provider = "skeleton"
	framework.AfterReadingAllFlags(&framework.TestContext)
	framework.TestContext.IPFamily, framework.TestContext.CloudConfig.NumNodes = b.Family, b.Nodes
	suite, reporter := ginkgo.GinkgoConfiguration()
	for _, name := range b.Names {
		suite.FocusStrings = append(suite.FocusStrings, regexp.QuoteMeta(name)+"$")
	}
	suite.Timeout = 3 * time.Hour
	gomega.RegisterFailHandler(framework.Fail)
	reporter.JSONReport, reporter.NoColor, reporter.Succinct = b.Report, true, true
	ginkgo.RunSpecs(t, "cases", suite, reporter)
}
