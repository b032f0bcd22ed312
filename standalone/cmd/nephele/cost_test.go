package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1alpha2"
	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/internal/sim/estatetest"
	"github.com/nephele-io/nephele/internal/sim/sqs"
	"github.com/nephele-io/nephele/internal/tier"
)

var (
	costVMs  = flag.Int("cost-vms", 60, "how many VMs TestCost takes over; 2000 is the case that docs/performance.md tells")
	profiles = flag.String("cost-profiles", "", "directory for a processor profile and heap profiles of the program under TestCost")
)

// profileDir, when set in the environment of the program, makes it write profiles of itself.
const profileDir = "NEPHELE_TEST_PROFILES"

// profiled runs the program, and writes what it has spent its time on until each SIGHUP, what it
// has allocated and what its goroutines do then, and what it holds in the end, into a directory.
// SIGTERM ends it.
func profiled(dir string, program func() int) int {
	stop := make(chan struct{})
	var sampling sync.WaitGroup
	rows := make(chan os.Signal, 1)
	signal.Notify(rows, syscall.SIGHUP)
	sampling.Go(func() {
		for n, more := 0, true; more; n++ {
			cpu, err := os.Create(filepath.Join(dir, fmt.Sprintf("cpu-%d.pprof", n)))
			if err != nil {
				panic(err)
			}
			if err := pprof.StartCPUProfile(cpu); err != nil {
				panic(err)
			}
			select {
			case <-rows:
			case <-stop:
				more = false
			}
			pprof.StopCPUProfile()
			cpu.Close()
			for _, name := range []string{"allocs", "goroutine"} {
				writeProfile(name, filepath.Join(dir, fmt.Sprintf("%s-%d.pprof", name, n)))
			}
		}
	})
	sampling.Go(func() { // the heap whenever it is a tenth larger than ever, and in the end
		for most := uint64(0); ; {
			select {
			case <-stop:
				return
			case <-time.After(time.Second):
			}
			var m runtime.MemStats
			if runtime.ReadMemStats(&m); m.HeapInuse > most+most/10 {
				most = m.HeapInuse
				writeProfile("heap", filepath.Join(dir, "heap-peak.pprof"))
			}
		}
	})
	context.AfterFunc(interrupted(), func() { writeProfile("heap", filepath.Join(dir, "heap.pprof")) })
	code := program()
	close(stop)
	sampling.Wait()
	return code
}

// interrupted ends when the program is told to end.
func interrupted() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop)
	return ctx
}

func writeProfile(name, path string) {
	f, err := os.Create(path)
	if err != nil {
		return
	}
	defer f.Close()
	_ = pprof.Lookup(name).WriteTo(f, 0)
}

const (
	costRegion = "eu-west-1"
	costRoles  = 10
)

// usage is what a process has used so far.
type usage struct {
	at        time.Time
	processor time.Duration
	resident  int
	peak      int
}

func usageOf(t *testing.T, pid int) usage {
	t.Helper()
	u := usage{at: time.Now()}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Skip("this measures processes by /proc, which is not here: ", err)
	}
	// The name of the program, in parentheses, may have spaces.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	for _, f := range fields[11:13] {
		ticks, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		u.processor += time.Duration(ticks) * 10 * time.Millisecond
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		name, rest, _ := strings.Cut(line, ":")
		if name != "VmRSS" && name != "VmHWM" {
			continue
		}
		kib, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			t.Fatal(err)
		}
		if name == "VmRSS" {
			u.resident = kib >> 10
		} else {
			u.peak = kib >> 10
		}
	}
	return u
}

// TestCost takes over a fleet under the rates of EC2, 30 ms away and with a queue of events, and
// measures what "nephele up" uses for that.
func TestCost(t *testing.T) {
	tier.OnlyLong(t, "it measures; the end-to-end tests take over the same way")
	dir := t.TempDir()
	server, err := sim.Start(context.WithoutCancel(t.Context()), sim.Options{
		State: estatetest.Fleet(t, costRegion, *costVMs, costRoles), Throttle: true, Latency: 30 * time.Millisecond, JournalSize: 100, Events: sim.EventOptions{Queue: sim.DefaultEventQueue},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})

	data := filepath.Join(dir, "data")
	cmd := program(t, "up", "--data-dir", data, "--listen", "127.0.0.1:0", "--allowed-endpoints", "loopback", "--propagation", "0s")
	if *profiles != "" {
		if err := os.MkdirAll(*profiles, 0o700); err != nil {
			t.Fatal(err)
		}
		cmd.Env = append(cmd.Env, profileDir+"="+*profiles)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var end error
	go func() { end = cmd.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
		if end != nil {
			t.Errorf("nephele up: %v\n%s", end, out.String())
		}
	})
	m := &measurement{T: t, cmd: cmd, server: server, ended: ended, begin: time.Now(), last: usage{at: time.Now()}}
	m.until(2*time.Minute, "ready", func() bool {
		cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(data, "kubeconfig"))
		if err != nil {
			return false
		}
		cfg.QPS, cfg.Burst = 200, 400
		scheme := kruntime.NewScheme()
		for _, add := range []func(*kruntime.Scheme) error{clientgoscheme.AddToScheme, cloudv1.AddToScheme, v1beta1.AddToScheme, v1alpha2.AddToScheme} {
			if err := add(scheme); err != nil {
				t.Fatal(err)
			}
		}
		typed, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			return false
		}
		m.api = typed.Discovery().RESTClient()
		m.client, err = client.NewWithWatch(cfg, client.Options{Scheme: scheme})
		return err == nil && m.client.List(t.Context(), &cloudv1.CloudProviderAccountList{}) == nil
	})
	m.pass(5 * time.Second)
	m.row("start")

	m.create(objectsOf(server)...)
	m.until(20*time.Minute, "the VMs", func() bool {
		var s cloudv1.CloudEntitySelector
		return m.client.Get(t.Context(), client.ObjectKey{Namespace: "vms", Name: "all"}, &s) == nil && s.Status.MatchedVMs != nil && int(*s.Status.MatchedVMs) == *costVMs
	})
	m.row(fmt.Sprintf("%d VMs are imported", *costVMs))

	m.create(policies()...)
	limit := time.Duration(max(0, *costVMs-100)) * time.Second / 5
	m.realized(3*limit+5*time.Minute, 2*costRoles)
	m.row(fmt.Sprintf("20 policies take over %d VMs (the rate of EC2 alone: %s)", *costVMs, limit))
	m.until(2*time.Minute, "the queue is empty", func() bool {
		visible, hidden, err := server.Queues().Depth(sqs.Ref{Account: estatetest.FleetAccount, Region: costRegion, Name: sim.DefaultEventQueue})
		return err == nil && visible+hidden == 0
	})
	m.pass(20 * time.Second)
	m.row("20 s after that")
	m.pass(100 * time.Second) // it gives memory back when it has been quiet for a minute
	m.row("100 s at rest")
	// In each minute five heartbeats are due and half a poll of seven or eight calls, for polls
	// rest while events come; what we change ourselves is not read again one by one.
	if bound := 60 + int(12*time.Since(m.begin).Minutes()); m.describing > bound {
		t.Errorf("%d describing calls, more than %d", m.describing, bound)
	}
	// When it is imported, when policies come to apply, and when it has other groups and they are
	// in force; and once more, for not all policies come at once.
	if bound := 4 * *costVMs; m.statuses > bound {
		t.Errorf("the statuses of %d VMs were written %d times, more than %d", *costVMs, m.statuses, bound)
	}
}

// measurement follows one process.
type measurement struct {
	*testing.T
	cmd    *exec.Cmd
	server *sim.Server
	client client.WithWatch
	api    rest.Interface
	// counted are the requests to the API server that were told.
	counted map[string]int
	ended   chan struct{}
	begin   time.Time
	last    usage
	// describing counts the calls that have only read.
	describing int
	// statuses counts the requests that wrote the status of a VM.
	statuses int
	// allocated is what the program has allocated since its start, in bytes, collections how often
	// it has collected garbage, and former both at the last row.
	allocated, collections uint64
	former                 [2]uint64
}

func (m *measurement) until(limit time.Duration, what string, done func() bool) {
	m.Helper()
	// To ask costs the program something as well.
	for begin := time.Now(); !done(); m.pass(min(limit/100, 2*time.Second)) {
		if time.Since(begin) > limit {
			m.Fatalf("not after %s: %s", limit, what)
		}
	}
}

// realized waits until so many policies are. It watches them: to list them every two seconds would
// cost the program a tenth as much as all that is measured.
func (m *measurement) realized(limit time.Duration, policies int) {
	m.Helper()
	are := map[string]bool{}
	over := time.After(limit)
	for {
		watching, err := m.client.Watch(m.Context(), &v1beta1.ClusterNetworkPolicyList{})
		if err != nil {
			m.Fatal(err)
		}
		for open := true; open; {
			select {
			case e, more := <-watching.ResultChan():
				if p, is := e.Object.(*v1beta1.ClusterNetworkPolicy); is {
					are[p.Name] = p.Status.Phase == v1beta1.NetworkPolicyRealized
				}
				open = more
			case <-m.ended:
				m.Fatal("nephele up has ended")
			case <-over:
				m.Fatalf("not after %s: all policies are realized, but %v", limit, are)
			}
			done := 0
			for _, is := range are {
				if is {
					done++
				}
			}
			if done == policies {
				watching.Stop()
				return
			}
		}
		watching.Stop()
	}
}

func (m *measurement) pass(d time.Duration) {
	m.Helper()
	select {
	case <-m.ended:
		m.Fatal("nephele up has ended")
	case <-time.After(d):
	}
}

// row tells what was used since the last row.
func (m *measurement) row(what string) {
	m.Helper()
	now := usageOf(m.T, m.cmd.Process.Pid)
	describing, changing := 0, 0
	for action, n := range m.server.Journal().Counts() {
		switch {
		case strings.HasPrefix(action, "Describe"), strings.HasPrefix(action, "Get"):
			describing += n
		case action != "ReceiveMessage" && action != "DeleteMessageBatch":
			changing += n
		}
	}
	m.describing += describing
	requests, detail := m.requests()
	m.Logf("| %s | %.0f s | %.1f s | %d MB | %d MB | %d | %d | %d | %d MB in %d collections |", what, now.at.Sub(m.last.at).Seconds(),
		(now.processor - m.last.processor).Seconds(), now.resident, now.peak, describing, changing, requests, (m.allocated-m.former[0])>>20, m.collections-m.former[1])
	m.former = [2]uint64{m.allocated, m.collections}
	if *profiles != "" {
		_ = m.cmd.Process.Signal(syscall.SIGHUP)
	}
	m.Logf("calls to the cloud: %v", m.server.Journal().Counts())
	m.Logf("requests to the API server: %v", detail)
	m.server.Journal().Reset()
	m.last = now
}

// requests counts the requests to the API server that have ended since the last call, and tells the
// most frequent ones.
func (m *measurement) requests() (total int, most []string) {
	m.Helper()
	text, err := m.api.Get().AbsPath("/metrics").DoRaw(m.Context())
	if err != nil {
		m.Fatal(err)
	}
	for name, into := range map[string]*uint64{"go_memstats_alloc_bytes_total": &m.allocated, "go_gc_duration_seconds_count": &m.collections} {
		if found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text); found != nil {
			if n, err := strconv.ParseFloat(string(found[1]), 64); err == nil {
				*into = uint64(n)
			}
		}
	}
	now := map[string]int{}
	for _, line := range regexp.MustCompile(`(?m)^apiserver_request_total\{(.*)\} ([0-9]+)$`).FindAllStringSubmatch(string(text), -1) {
		labels := map[string]string{}
		for _, l := range regexp.MustCompile(`(\w+)="([^"]*)"`).FindAllStringSubmatch(line[1], -1) {
			labels[l[1]] = l[2]
		}
		n, err := strconv.Atoi(line[2])
		if err != nil {
			m.Fatal(err)
		}
		now[strings.TrimSuffix(labels["verb"]+" "+labels["resource"]+"/"+labels["subresource"], "/")] += n
	}
	var names []string
	for name, n := range now {
		if n -= m.counted[name]; n > 0 && !strings.HasPrefix(name, "WATCH ") {
			total += n
			if name == "PUT virtualmachines/status" {
				m.statuses += n
			}
			names = append(names, fmt.Sprintf("%6d %s", n, name))
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	m.counted = now
	return total, names[:min(len(names), 12)]
}

func (m *measurement) create(objects ...client.Object) {
	m.Helper()
	for _, o := range objects {
		if err := m.client.Create(m.Context(), o); err != nil {
			m.Fatalf("create %T %s: %v", o, o.GetName(), err)
		}
	}
}

func objectsOf(server *sim.Server) []client.Object {
	ns := func(name string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	queue := sqs.Ref{Account: estatetest.FleetAccount, Region: costRegion, Name: sim.DefaultEventQueue}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "keys"}, StringData: map[string]string{
		"credentials": fmt.Sprintf(`{"accessKeyId": %q, "accessKeySecret": %q}`, estate.DefaultAccessKeyID, estate.DefaultSecret)}}
	account := &cloudv1.CloudProviderAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "cloud", Name: "fleet"}}
	account.Spec.AWSConfig = &cloudv1.CloudProviderAccountAWSConfig{Region: []string{costRegion}, Endpoint: server.URL(),
		SecretRef:  &cloudv1.SecretReference{Namespace: "cloud", Name: "keys", Key: "credentials"},
		EventQueue: []cloudv1.AWSEventQueue{{URL: server.URL() + queue.Path(), Region: costRegion}}}
	all := int32(100)
	account.Spec.Brake = &cloudv1.Brake{Percent: &all}
	selector := &cloudv1.CloudEntitySelector{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "all"}}
	selector.Spec.AccountNamespace, selector.Spec.AccountName = "cloud", "fleet"
	selector.Spec.VMSelector = []cloudv1.VirtualMachineSelector{{VpcMatch: &cloudv1.EntityMatch{MatchID: estatetest.FleetVPC}}}
	return []client.Object{ns("cloud"), ns("vms"), secret, account, selector}
}

// policies are twenty: every role admits two others, each on a port of its own.
func policies() []client.Object {
	of := func(role int) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{cloudv1.LabelTagPrefix + "role": fmt.Sprintf("r%d", role%costRoles)}}
	}
	var out []client.Object
	for i := range 2 * costRoles {
		p := &v1beta1.ClusterNetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%02d", i)}}
		port, protocol := intstr.FromInt32(int32(1000+i)), v1beta1.Protocol("TCP")
		p.Spec.Priority, p.Spec.Tier = 5, "application"
		p.Spec.AppliedTo = []v1beta1.AppliedTo{{ExternalEntitySelector: of(i)}}
		p.Spec.Ingress = []v1beta1.Rule{{Action: v1beta1.RuleActionAllow, From: []v1beta1.NetworkPolicyPeer{{ExternalEntitySelector: of(i + 1 + 2*(i/costRoles))}},
			Ports: []v1beta1.NetworkPolicyPort{{Protocol: &protocol, Port: &port}}}}
		out = append(out, p)
	}
	return out
}
