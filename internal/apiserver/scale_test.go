package apiserver_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/nephele-io/nephele/internal/apiserver/watchstore"
	"github.com/nephele-io/nephele/internal/convert"
	"github.com/nephele-io/nephele/internal/policy"
	"github.com/nephele-io/nephele/internal/policy/compute"
	"github.com/nephele-io/nephele/internal/policy/policytest"
	"github.com/nephele-io/nephele/internal/seed"
)

// TestMain lets the benchmark run its clients in a process of their own: this program again.
func TestMain(m *testing.M) {
	if mode := os.Getenv(crowdMode); mode != "" {
		if err := crowd(mode, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// largeNamespaces is a world of n Namespaces of 1,000 Pods on the given number of nodes, 101
// policies each.
func largeNamespaces(n, nodes int) (objects []policytest.Object, pods []policy.Entity) {
	objects = policytest.LargeNamespaces(n).Objects
	for i, o := range objects {
		if x, ok := o.(policy.Entity); ok {
			x.Host = fmt.Sprintf("node-%d", len(pods)%nodes)
			objects[i] = x
			pods = append(pods, x)
		}
	}
	return objects, pods
}

func computed(objects []policytest.Object) (*compute.Engine, watchstore.Changes) {
	e := compute.New(compute.Options{})
	for _, o := range objects {
		policytest.Put(e, o)
	}
	return e, convert.Delta(e.Commit())
}

// relabel gives one Pod the labels of others.
func relabel(e *compute.Engine, pods []policy.Entity, random *rand.Rand) watchstore.Changes {
	x := &pods[random.IntN(len(pods))]
	x.Labels = map[string]string{"app": fmt.Sprintf("app-%d", random.IntN(100))}
	e.PutEntity(*x)
	return convert.Delta(e.Commit())
}

// TestNodesFollowLabels: every node of a small world has what a list returns, after it began and
// after labels changed.
func TestNodesFollowLabels(t *testing.T) {
	const nodes = 20
	w := serve(t, watchstore.New(watchstore.Options{}), "127.0.0.1:0")
	objects, pods := largeNamespaces(1, nodes)
	var agents []*agent
	config := w.config("agent", "")
	for i := range nodes {
		agents = append(agents, newAgent(t, fmt.Sprintf("node-%d", i), "", func() (*rest.Config, error) { return config, nil }))
	}
	e, all := computed(objects)
	w.store.Publish(all)
	seed := seed.Of(t)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 2 {
		for _, a := range agents {
			eventually(t, "the nodes are in sync", func() error { return a.inSync(t.Context(), w.client(t, "agent", "")) })
		}
		for range 50 {
			w.store.Publish(relabel(e, pods, random))
		}
	}
}

// nodes is how many nodes BenchmarkNodes has.
var nodes = flag.Int("nodes", 2000, "nodes that watch in BenchmarkNodes")

// BenchmarkNodes has nodes, 2,000 of them unless said otherwise, watch the three kinds over
// protobuf and TLS, each by a connection of its own (Connections) or all over as few as HTTP/2
// makes (Shared), in the world LargeNamespaces. It measures how long all take to connect, how long
// from the start of the computation until all have everything, and how long a changed label takes
// to all it concerns. The clients, a process of their own on the same machine, only tell frames
// apart; their share of the processor time is reported.
func BenchmarkNodes(b *testing.B) {
	for _, mode := range []string{"Connections", "Shared"} {
		b.Run(mode, func(b *testing.B) {
			for range b.N {
				benchNodes(b, mode, *nodes)
			}
		})
	}
}

func benchNodes(b *testing.B, mode string, nodes int) {
	w := serve(b, watchstore.New(watchstore.Options{}), "127.0.0.1:0")
	defer w.stop()
	before := inUse()
	begin := time.Now()
	c := startCrowd(b, mode, w, nodes)
	defer c.stop()
	c.await("connected")
	b.ReportMetric(time.Since(begin).Seconds(), "s/connect")
	b.ReportMetric(float64(inUse()-before)/float64(3*nodes)/1024, "KiB/watch")

	objects, pods := largeNamespaces(100, nodes)
	mine, theirs := processorTime(), c.await("cpu")
	begin = time.Now()
	e, all := computed(objects)
	w.store.Publish(all)
	computed := time.Since(begin)
	c.await("synced")
	b.ReportMetric(computed.Seconds(), "s/compute")
	b.ReportMetric(time.Since(begin).Seconds(), "s/all-synced")
	mine, theirs = processorTime()-mine, c.await("cpu")-theirs
	b.ReportMetric(mine.Seconds(), "s-cpu/server")
	b.ReportMetric(theirs.Seconds(), "s-cpu/clients")

	random := rand.New(rand.NewPCG(1, 1))
	var took []time.Duration
	total := 0
	for range 300 {
		begin := time.Now()
		n := w.store.Publish(relabel(e, pods, random))
		if n == 0 {
			continue
		}
		total += n
		c.await("changes " + strconv.Itoa(total))
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/label-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms/label-p99")
	b.ReportMetric(float64(total)/float64(len(took)), "events/label")
}

// inUse is the memory in use after a collection, stacks included.
func inUse() uint64 {
	runtime.GC()
	runtime.GC()
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64() + s[1].Value.Uint64()
}

// processorTime is what this process has used of all processors together.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// crowdMode is the variable that makes this program the clients: it says how they connect.
const crowdMode = "NEPHELE_TEST_CROWD"

// crowdProcess is the process of the clients. It is asked by a line on its input and answers with a
// number.
type crowdProcess struct {
	b   *testing.B
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startCrowd(b *testing.B, mode string, w *world, nodes int) *crowdProcess {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crowdMode+"="+mode)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	fmt.Fprintf(in, "%s %d %d\n%s", w.address, nodes, len(w.ca), w.ca)
	return &crowdProcess{b, cmd, in, bufio.NewReader(out)}
}

// await asks, and waits for the answer: the processor time of the clients.
func (c *crowdProcess) await(question string) time.Duration {
	c.b.Helper()
	fmt.Fprintln(c.in, question)
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.b.Fatalf("%s: the clients end: %v", question, err)
	}
	n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		c.b.Fatal(err)
	}
	return time.Duration(n)
}

func (c *crowdProcess) stop() {
	_ = c.in.Close()
	_ = c.cmd.Wait()
}

// clients count what 3 watches for each of many nodes receive.
type clients struct {
	mu                         sync.Mutex
	arrived                    sync.Cond
	connected, synced, changes int
	failed                     error
}

// crowd is the process of the clients. in says where the server is, and then asks; it ends with its
// input.
func crowd(mode string, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	var address string
	var nodes, size int
	if _, err := fmt.Fscanf(lines, "%s %d %d\n", &address, &nodes, &size); err != nil {
		return err
	}
	ca := make([]byte, size)
	if _, err := io.ReadFull(lines, ca); err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := func() *http.Transport {
		return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "antrea.kube-system.svc"}, ForceAttemptHTTP2: true}
	}
	shared := transport()
	c := &clients{}
	c.arrived.L = &c.mu
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	// Some at a time, as the connections of a real cluster do not all begin in the same
	// microsecond.
	begin := make(chan struct{}, 64)
	for i := range nodes {
		t := shared
		if mode == "Connections" {
			t = transport()
		}
		go func() {
			for _, r := range watchstore.Resources() {
				begin <- struct{}{}
				body, err := open(ctx, t, fmt.Sprintf("https://%s/apis/controlplane.antrea.io/v1beta2/%s?watch=true&fieldSelector=nodeName%%3Dnode-%d", address, r, i))
				<-begin
				c.note(func() { c.connected++; c.failed = err })
				if err == nil {
					go c.receive(body)
				}
			}
		}()
	}
	for {
		question, err := lines.ReadString('\n')
		if err != nil {
			return nil
		}
		word, arg, _ := strings.Cut(strings.TrimSpace(question), " ")
		want, _ := strconv.Atoi(arg)
		c.mu.Lock()
		for c.failed == nil && (word == "connected" && c.connected < 3*nodes || word == "synced" && c.synced < 3*nodes || word == "changes" && c.changes < want) {
			c.arrived.Wait()
		}
		err = c.failed
		c.mu.Unlock()
		if err != nil {
			return err
		}
		fmt.Fprintln(out, processorTime().Nanoseconds())
	}
}

func open(ctx context.Context, t *http.Transport, url string) (io.Reader, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/vnd.kubernetes.protobuf")
	request.Header.Set("Authorization", "Bearer agent")
	response, err := t.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return response.Body, nil
}

func (c *clients) note(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.arrived.Broadcast()
}

// receive tells frames apart: 4 bytes of length, then a WatchEvent, whose first field is its type.
func (c *clients) receive(body io.Reader) {
	buffer := make([]byte, 4096)
	header, at, left := 0, 0, 0
	marked := false
	for {
		n, err := body.Read(buffer)
		bookmark, changes := false, 0
		for p := buffer[:n]; len(p) > 0; {
			if left == 0 {
				header = header<<8 | int(p[0])
				p = p[1:]
				if at++; at == 4 {
					left, header, at = header, 0, 0
				}
				continue
			}
			// The third byte of a frame is the first letter of the type.
			if at < 3 {
				if at == 2 {
					switch {
					case p[0] == 'B':
						bookmark, marked = true, true
					case marked:
						changes++
					}
				}
				at++
				left--
				p = p[1:]
				continue
			}
			skip := min(left, len(p))
			left -= skip
			if p = p[skip:]; left == 0 {
				at = 0
			}
		}
		if bookmark || changes > 0 {
			c.note(func() {
				if bookmark {
					c.synced++
				}
				c.changes += changes
			})
		}
		if err != nil {
			return
		}
	}
}
