package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/api/controlplane/v1beta2"
	"github.com/nephele-io/nephele/internal/platform/progress"
	"github.com/nephele-io/nephele/internal/sim"
	"github.com/nephele-io/nephele/internal/sim/estate"
	"github.com/nephele-io/nephele/standalone/internal/up"
)

// The clusters of the story, and what the hub lets them speak for.
const (
	hubName, eastName, westName = "hub", "east", "west"
	westPods                    = "10.2.0.0/16"
	eastMachines                = "192.168.0.0/16"
)

// waitsOfStep is how many waits, each as long as one may be, a chapter may take.
const waitsOfStep = 3

// podAddresses are the addresses that the story gives to the Pods of west.
func podAddresses() map[string]string {
	return map[string]string{"netops": "10.2.0.5", "netops-2": "10.2.0.6", "batch": "10.2.0.9", "forged": "10.9.0.7"}
}

// Which machines reach the VMs of east, where a VM represents all of its interfaces.
const (
	// By the group of the account: ssh from anywhere, everything from the VPC.
	expectSetBefore = `
		Pod netops   | s... s... s...
		Pod netops-2 | s... s... s...
		Pod batch    | s... s... s...
		Pod forged   | s... s... s...
		border_01    | ---- shtp shtp
		core_01      | shtp shtp ----
		203.0.113.7  | s... s... s...`

	// Two VMs are switches, and managed by those Pods of west that the hub believes.
	expectSetGuarded = `
		Pod netops   | sh.. sh.. s...
		Pod netops-2 | .... .... s...
		Pod batch    | .... .... s...
		Pod forged   | .... .... s...
		border_01    | ---- .... shtp
		core_01      | .... .... ----
		203.0.113.7  | .... .... s...`

	// core_01 is one, too. The Pod netops-2 is not known in east: the hub is away.
	expectSetAway = `
		Pod netops   | sh.. sh.. sh..
		Pod netops-2 | .... .... ....
		Pod batch    | .... .... ....
		Pod forged   | .... .... ....
		border_01    | ---- .... ....
		core_01      | .... .... ----
		203.0.113.7  | .... .... ....`

	expectSetBack = `
		Pod netops   | sh.. sh.. sh..
		Pod netops-2 | sh.. sh.. sh..
		Pod batch    | .... .... ....
		Pod forged   | .... .... ....
		border_01    | ---- .... ....
		core_01      | .... .... ----
		203.0.113.7  | .... .... ....`
)

func setTable(text string) expectation { return tableOf(text, 3) }

// setStory is the story of several clusters. Its embedded story is about east, which has the
// account.
type setStory struct {
	story           *story
	flags           flags
	hub, east, west *plane
	lastSet         matrix
	// ended means that it has been told to its end.
	ended bool
}

// runClusters tells the story of several clusters, and cleans up.
func runClusters(ctx context.Context, p Parts, f flags, out, errOut io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "nephele-demo-")
	if err != nil {
		return err
	}
	over, held := false, false
	t := &teller{out: out, screen: screenOf(out, os.Getenv, ctx.Done())}
	defer func() {
		if over && !held {
			t.say("The data directories are kept for you to look into, with the logs: %s", dir)
		} else {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		if err == nil && !held {
			err = p.No
		}
	}()
	steps := progress.New(errOut, up.IsTerminal(errOut))
	defer steps.Close()
	state, _, err := estate.HybridCloud()
	if err != nil {
		return err
	}
	// The simulator goes on until the controllers have ended; the interrupt must not cut calls off.
	server, err := sim.Start(context.WithoutCancel(ctx), sim.Options{State: state, Seed: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	region, err := regionOf(state)
	if err != nil {
		return err
	}
	s := &setStory{flags: f, story: &story{
		teller: t, limit: f.timeout, steps: steps, account: account{server}, dir: filepath.Join(dir, "story"),
		pristine: objects(region),
	}}
	l, err := loginOf(server.URL(), state)
	if err == nil {
		err = writeFiles(s.story.dir, l, false, fileAccount, fileSelector, fileSetRoles, fileSetPods, fileSetSwitches, fileSetNewPod, fileSetMoved)
	}
	if err != nil {
		return err
	}
	inner, broken := context.WithCancelCause(ctx)
	defer broken(nil)
	if err := s.planes(dir, broken); err != nil {
		return err
	}
	defer func() {
		for _, each := range []*plane{s.east, s.west, s.hub} {
			err = errors.Join(err, each.kill()) // all that they have is removed now, or is there for somebody to look at
		}
	}()
	err = s.told(inner)
	var late *timeout
	switch {
	case ctx.Err() != nil && !s.ended:
		s.story.say("Interrupted before the end of the story.")
		return nil
	case err != nil && !errors.As(err, &late):
		return err
	}
	over, held = true, s.story.sum(err)
	if f.once || err != nil {
		return nil
	}
	s.byHand(l)
	<-inner.Done()
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(inner)
}

// planes says what the three control planes are.
func (s *setStory) planes(dir string, broken context.CancelCauseFunc) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	feed, err := fixedAddress()
	if err != nil {
		return err
	}
	of := func(name string, flags ...string) *plane {
		return &plane{name: name, program: program, flags: flags, dir: filepath.Join(dir, name), log: filepath.Join(dir, name+".log"), broken: broken}
	}
	// The cloud of east is simulated on this machine, and answers without delay.
	s.hub, s.east, s.west = of(hubName, "--api-listen", feed), of(eastName, "--allowed-endpoints", "loopback", "--propagation", "0s"), of(westName)
	return nil
}

// told tells the story.
func (s *setStory) told(ctx context.Context) error {
	steps := []func(context.Context) error{s.start, s.joins, s.imports, s.policy, s.questions, s.hubKilled, s.hubBack}
	if s.flags.once {
		steps = append(steps, s.leaves)
	}
	for _, step := range steps {
		limit := waitsOfStep * s.story.limit
		bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("chapter %d of the story was not told within %s", s.story.step, limit))
		err := step(bounded)
		if bounded.Err() != nil { // what then failed is not the reason
			err = context.Cause(bounded)
		}
		cancel()
		if err != nil {
			return err
		}
	}
	s.ended = true
	return nil
}

// awaitReady waits until a process is.
func (s *setStory) awaitReady(ctx context.Context, p *plane) error {
	err := s.story.await(ctx, p.name+" is ready", func(context.Context) (string, error) {
		select {
		case <-p.ready:
			return "", nil
		default:
			return "it is starting; its log: " + p.log, nil
		}
	})
	if err != nil {
		return err
	}
	return p.connect()
}

func (s *setStory) start(ctx context.Context) error {
	s.story.heading("What runs")
	s.story.say("Three control planes, each a process of its own on this machine as \"nephele up\" runs it: a hub, and the clusters east and west. " +
		"A simulated AWS account, which will be east's, is a real one published by the Batfish project.")
	begin := time.Now()
	for _, p := range []*plane{s.hub, s.east, s.west} {
		if err := p.start(); err != nil {
			return err
		}
	}
	for _, p := range []*plane{s.hub, s.east, s.west} {
		if err := s.awaitReady(ctx, p); err != nil {
			return err
		}
	}
	s.story.cluster = s.east.cluster
	s.story.say("All three were ready after %s.", seconds(time.Since(begin)))
	return nil
}

// run shows and runs a command, and shows what it prints, without secrets.
func (s *setStory) run(ctx context.Context, p *plane, args ...string) (code int, out string, err error) {
	shown := make([]string, 0, len(args))
	for _, a := range args {
		shown = append(shown, shellWord(a))
	}
	fmt.Fprintf(s.story.out, "  %s$ nephele %s\n", p.name, withoutSecret(strings.Join(shown, " ")))
	s.story.steps.Step("running nephele " + args[0])
	code, out, errOut, err := p.nephele(ctx, s.story.limit, args...)
	s.story.steps.Step("")
	if ctx.Err() != nil {
		return 0, "", context.Cause(ctx)
	}
	if err != nil {
		return 0, "", err
	}
	for line := range strings.Lines(withoutSecret(out + errOut)) {
		s.story.print("    " + line)
	}
	return code, out, nil
}

// withoutSecret shortens the secret and the hash of a token.
func withoutSecret(text string) string {
	before, rest, is := strings.Cut(text, " cluster:")
	if !is {
		return text
	}
	name, rest, _ := strings.Cut(rest, ":")
	_, server, _ := strings.Cut(rest, "@")
	return before + " cluster:" + name + ":SECRET:HASH@" + server
}

// succeeds checks the end of a command.
func (s *setStory) succeeds(code int, format string, args ...any) {
	var wrong []string
	if code != 0 {
		wrong = []string{fmt.Sprintf("the command ended with %d", code)}
	}
	s.story.check(wrong, format, args...)
}

func (s *setStory) joins(ctx context.Context) error {
	s.story.heading("Three clusters become a set")
	s.story.say("The hub makes a token for each, which works once, and says which addresses the cluster may speak for. The line that it prints is " +
		"run in the other cluster. Only members connect.")
	begin := time.Now()
	for _, m := range []struct {
		plane *plane
		flags []string
	}{{s.east, []string{"--machines", eastMachines}}, {s.west, []string{"--pods", westPods}}} {
		_, line, err := s.run(ctx, s.hub, append([]string{"cluster", "token", m.plane.name, "--label", "stage=prod"}, m.flags...)...)
		if err != nil {
			return err
		}
		printed := strings.Fields(line)
		if len(printed) != 3 || printed[0] != "nephele" || printed[1] != "join" {
			return fmt.Errorf("the hub does not print a line to join by: %q", withoutSecret(line))
		}
		code, _, err := s.run(ctx, m.plane, printed[1:]...)
		if err != nil {
			return err
		}
		s.succeeds(code, "%s has joined by the printed line", m.plane.name)
	}
	if err := s.story.awaitEvery(ctx, commandPause, "both are in sync", s.inSync); err != nil {
		return err
	}
	s.story.say("Both are in sync %s after the first token.", seconds(time.Since(begin)))
	return nil
}

// inSync says what is missing until the hub finds all members in sync.
func (s *setStory) inSync(ctx context.Context) (string, error) {
	code, out, errOut, err := s.hub.nephele(ctx, s.story.limit, "status", "--clusters")
	if err != nil || code == 0 && strings.Count(out, " InSync ") == 2 {
		return "", err
	}
	return "nephele status --clusters says:\n" + out + errOut, nil
}

func (s *setStory) imports(ctx context.Context) error {
	s.story.heading("What east and west have")
	machines, err := vms(s.story.account.regionState())
	if err != nil {
		return err
	}
	s.story.machines = slices.DeleteFunc(machines, func(m vm) bool { return m.name == cvp })
	s.story.say("east has the account. border_01 and border_02 get the tag role=switch; core_01 has none yet.")
	for _, name := range []string{fileAccount, fileSelector} {
		if err := s.applyAt(ctx, s.east, name); err != nil {
			return err
		}
	}
	if err := s.story.await(ctx, "the VMs are imported", func(ctx context.Context) (string, error) {
		return s.story.cluster.imported(ctx, s.story.machines, false)
	}); err != nil {
		return err
	}
	if err := s.applyAt(ctx, s.east, fileSetRoles); err != nil {
		return err
	}
	if err := s.story.await(ctx, "they have their roles", func(ctx context.Context) (string, error) {
		return s.story.cluster.imported(ctx, s.story.machines, true)
	}); err != nil {
		return err
	}
	s.story.say("west has Pods: netops and batch, and one that says it has an address which is none of west's (%s).", podAddresses()["forged"])
	if err := s.applyAt(ctx, s.west, fileSetPods); err != nil {
		return err
	}
	for _, name := range []string{"netops", "batch", "forged"} {
		if err := s.west.cluster.giveAddress(ctx, name, podAddresses()[name]); err != nil {
			return err
		}
	}
	s.story.say("Who may open a connection to the VMs of east, by the security groups of the account:")
	return s.lookAtSet(expectSetBefore, false)
}

// applyAt is apply in a cluster of the story.
func (s *setStory) applyAt(ctx context.Context, p *plane, name string) error {
	fmt.Fprintf(s.story.out, "  %s$ kubectl apply -f %s\n", p.name, name)
	return p.cluster.apply(ctx, s.story.file(name))
}

// giveAddress does what a kubelet would.
func (c cluster) giveAddress(ctx context.Context, name, address string) error {
	var pod corev1.Pod
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &pod); err != nil {
		return err
	}
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, address, []corev1.PodIP{{IP: address}}
	return c.Status().Update(ctx, &pod)
}

// setMatrix asks the simulator which machines reach the VMs of east.
func (s *setStory) setMatrix() (matrix, error) {
	machines, err := vms(s.story.account.regionState())
	if err != nil {
		return matrix{}, err
	}
	var from, to []place
	for _, name := range []string{"netops", "netops-2", "batch", "forged"} {
		from = append(from, place{name: "Pod " + name, addr: netip.MustParseAddr(podAddresses()[name])})
	}
	for _, m := range machines {
		p := place{name: m.name}
		for _, n := range m.nics {
			p.nics = append(p.nics, n.ID)
		}
		if m.name != cvp {
			to = append(to, p)
		}
		if m.name == border01 || m.name == core01 {
			from = append(from, p)
		}
	}
	from = append(from, place{name: internet, addr: netip.MustParseAddr(internet)})
	return reach(from, to, s.story.account.server.World().Allowed)
}

// lookAtSet prints which machines reach the VMs of east, and checks it.
func (s *setStory) lookAtSet(want string, marks bool) error {
	m, err := s.setMatrix()
	if err != nil {
		return err
	}
	var former [][]string
	if marks {
		former = s.lastSet.cells
	}
	s.story.compare(m, former, setTable(want).cells, "the simulator")
	s.lastSet = m
	return nil
}

// awaitSet waits until the simulator's verdicts are these, and something else is as it should be.
func (s *setStory) awaitSet(ctx context.Context, what, want string, also func(context.Context) (string, error)) (time.Duration, error) {
	begin := time.Now()
	var inForce time.Duration
	err := s.story.await(ctx, what, func(ctx context.Context) (string, error) {
		m, err := s.setMatrix()
		if err != nil {
			return "", err
		}
		if d := m.differences(setTable(want).cells); len(d) > 0 {
			return d[0].in(m.services), nil
		}
		if inForce == 0 {
			inForce = time.Since(begin)
		}
		return also(ctx)
	})
	return inForce, err
}

func nothingMore(context.Context) (string, error) { return "", nil }

// realizedInEast says what the hub's status of the policy switches lacks until it is realized in
// east.
func (s *setStory) realizedInEast(ctx context.Context) (string, error) {
	var p v1beta1.ClusterNetworkPolicy
	if err := s.hub.cluster.Get(ctx, types.NamespacedName{Name: policySwitches}, &p); err != nil {
		return "", err
	}
	i := slices.IndexFunc(p.Status.Clusters, func(c v1beta1.ClusterRealization) bool { return c.Name == eastName })
	if i < 0 {
		return "the status of the policy says nothing of east", nil
	}
	if c := p.Status.Clusters[i]; c.Phase != string(v1beta1.NetworkPolicyRealized) || c.ObservedGeneration != p.Generation {
		return fmt.Sprintf("the status of the policy says of east: %s %s %s", c.Phase, c.Reason, c.Message), nil
	}
	return "", nil
}

// guardedPods are the Pods to which a policy applies in a cluster, by what its enforcers receive.
func (p *plane) guardedPods(ctx context.Context) ([]string, error) {
	text, err := p.kube.Discovery().RESTClient().Get().AbsPath("/apis/controlplane.antrea.io/v1beta2/appliedtogroups").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list v1beta2.AppliedToGroupList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, g := range list.Items {
		for _, m := range g.GroupMembers {
			if m.Pod != nil {
				names[m.Pod.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// awaitGuarded waits until the policies of the hub apply to these Pods of west, in order.
func (s *setStory) awaitGuarded(ctx context.Context, want ...string) error {
	return s.story.await(ctx, "the policies of the hub apply to the Pods of west", func(ctx context.Context) (string, error) {
		names, err := s.west.guardedPods(ctx)
		if err != nil || slices.Equal(names, want) {
			return "", err
		}
		return fmt.Sprintf("they apply to %v, not to %v", names, want), nil
	})
}

func (s *setStory) policy(ctx context.Context) error {
	s.story.heading("A policy of the hub")
	s.story.say("Written once, in the hub, for all clusters with the label stage=prod: switches are managed by the Pods netops of any cluster " +
		"(scope: ClusterSet), and these take telemetry from switches.")
	if err := s.applyAt(ctx, s.hub, fileSetSwitches); err != nil {
		return err
	}
	took, err := s.awaitSet(ctx, "the policy is in force in east", expectSetGuarded, s.realizedInEast)
	if err != nil {
		return err
	}
	s.story.say("In force in the account of east after %s:", seconds(took))
	if err := s.lookAtSet(expectSetGuarded, true); err != nil {
		return err
	}
	s.story.check(nil, "the hub's status of the policy says that it is realized in east")
	if err := s.awaitGuarded(ctx, "forged", "netops"); err != nil {
		return err
	}
	s.story.check(nil, "in west the other policy applies to the Pods netops")
	if err := s.story.awaitEvery(ctx, commandPause, "the forged address is told", func(ctx context.Context) (string, error) {
		code, out, errOut, err := s.hub.nephele(ctx, s.story.limit, "cluster", "list")
		if err != nil || code == 1 && strings.Contains(out, "west: not believed: Pod demo/forged: "+podAddresses()["forged"]) {
			return "", err
		}
		return "nephele cluster list says:\n" + out + errOut, nil
	}); err != nil {
		return err
	}
	s.story.check(nil, "the hub has not believed the address that is none of west's, and says so")
	fmt.Fprintf(s.story.out, "  %s$ kubectl delete pod -n %s forged\n", westName, namespace)
	return s.west.cluster.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "forged"}}, client.GracePeriodSeconds(0))
}

func (s *setStory) questions(ctx context.Context) error {
	s.story.heading("Questions")
	s.story.say("Each half of the answer comes from the cluster that knows it.")
	to := eastName + ":" + namespace + "/" + cloudv1.EntityNamePrefix + s.story.machines[0].id
	for _, q := range []struct {
		from string
		code int
		says string
	}{{"netops", 0, "may"}, {"batch", 1, "may not"}} {
		code, out, err := s.run(ctx, s.hub, "explain", "--from", westName+":"+namespace+"/"+q.from, "--to", to, "--port", "443")
		if err != nil {
			return err
		}
		var wrong []string
		if code != q.code || !strings.Contains(out, "hub-switches") {
			wrong = []string{fmt.Sprintf("the command ended with %d", code)}
		}
		s.story.check(wrong, "%s %s, and the answer names the policy of the hub", q.from, q.says)
	}
	return nil
}

func (s *setStory) hubKilled(ctx context.Context) error {
	s.story.heading("The hub is killed")
	fmt.Fprintf(s.story.out, "  $ kill -9 %d\n", s.hub.cmd.Process.Pid)
	if err := s.hub.kill(); err != nil {
		return err
	}
	s.story.say("Nothing changes in the account:")
	if err := s.lookAtSet(expectSetGuarded, true); err != nil {
		return err
	}
	s.story.say("What is new in a member is guarded all the same: in east core_01 becomes a switch, and west gets one more Pod netops.")
	if err := s.applyAt(ctx, s.east, fileSetMoved); err != nil {
		return err
	}
	if err := s.applyAt(ctx, s.west, fileSetNewPod); err != nil {
		return err
	}
	if err := s.west.cluster.giveAddress(ctx, "netops-2", podAddresses()["netops-2"]); err != nil {
		return err
	}
	if err := s.awaitGuarded(ctx, "netops", "netops-2"); err != nil {
		return err
	}
	s.story.check(nil, "in west the policy of the hub applies to the new Pod")
	took, err := s.awaitSet(ctx, "core_01 is guarded", expectSetAway, nothingMore)
	if err != nil {
		return err
	}
	s.story.say("core_01 is guarded after %s. As east hears nothing of the new Pod, netops-2 does not reach the switches yet:", seconds(took))
	return s.lookAtSet(expectSetAway, true)
}

func (s *setStory) hubBack(ctx context.Context) error {
	s.story.heading("The hub is back")
	begin := time.Now()
	if err := s.hub.start(); err != nil {
		return err
	}
	if err := s.awaitReady(ctx, s.hub); err != nil {
		return err
	}
	ready := time.Since(begin)
	took, err := s.awaitSet(ctx, "the members are connected again", expectSetBack, s.realizedInEast)
	if err != nil {
		return err
	}
	s.story.say("It was ready after %s, and %s later east knew the new Pod of west:", seconds(ready), seconds(took))
	if err := s.lookAtSet(expectSetBack, true); err != nil {
		return err
	}
	if err := s.story.awaitEvery(ctx, commandPause, "both are in sync", s.inSync); err != nil {
		return err
	}
	code, _, err := s.run(ctx, s.hub, "status", "--clusters")
	if err != nil {
		return err
	}
	s.succeeds(code, "both members are in sync, and nothing needs attention")
	return nil
}

// leaves takes everything back.
func (s *setStory) leaves(ctx context.Context) error {
	s.story.heading("Back to the beginning")
	for _, p := range []*plane{s.east, s.west} {
		code, _, err := s.run(ctx, p, "leave", "--drop")
		if err != nil {
			return err
		}
		s.succeeds(code, "%s has left the set", p.name)
	}
	if _, err := s.awaitSet(ctx, "the policies are gone", expectSetBefore, nothingMore); err != nil {
		return err
	}
	if err := s.story.leave(ctx); err != nil {
		return err
	}
	s.story.check(changed(s.story.pristine, objects(s.story.account.regionState())),
		"the account is exactly as it was found: groups, rules, interfaces and tags (%d objects compared)", len(s.story.pristine))
	return nil
}

// byHand says how to go on.
func (s *setStory) byHand(l login) {
	s.story.heading("Go on by hand")
	s.story.say("Everything goes on running. In other terminals:")
	for _, p := range []*plane{s.hub, s.east, s.west} {
		fmt.Fprintf(s.story.out, "  export KUBECONFIG=%s   # %s\n", shellWord(p.kubeconfig()), p.name)
	}
	fmt.Fprintf(s.story.out, `
  kubectl get clusters.set.nephele.io,acnp        # in the hub
  kubectl apply -f %[1]s
  kubectl get membership,acnp,vm -A               # in east
  curl '%[2]s/_sim/allowed?src=%[3]s&dst=%[4]s&proto=tcp&port=22'

`, shellWord(s.story.file(fileSetSwitches)), l.Endpoint, border01, core01)
	s.story.say("Ctrl-C stops.")
}
