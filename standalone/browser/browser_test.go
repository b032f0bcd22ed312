package browser

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/console"
	"github.com/nephele-io/nephele/internal/sim"
	simaws "github.com/nephele-io/nephele/internal/sim/aws"
	"github.com/nephele-io/nephele/internal/sim/aws/packet"
	"github.com/nephele-io/nephele/internal/sim/sqs"
	"github.com/nephele-io/nephele/internal/sim/world"
	"github.com/nephele-io/nephele/internal/tier"
)

const (
	cloudAccount = "111122223333"
	region       = "eu-west-1"
	keyID        = "AKIACONTROLLER000000"
	strangerKey  = "AKIASTRANGER00000000"
	keySecret    = "secret-of-the-simulated-account"
	// stranger is a person who changes things by hand.
	stranger = "jo"

	// hostile is the name of a VM, the value of a tag and the name of a rule.
	hostile = `<img src=x onerror="window.pwned=1">`
	// limit bounds every wait, and sceneLimit every scene. They only say how long a broken build
	// hangs: a busy machine may be ten times slower than a quiet one.
	limit      = 10 * time.Minute
	sceneLimit = 30 * time.Minute
)

var pictures = flag.String("pictures", "", "folder for the pictures of docs/console.md; empty writes none")

// place is where the tests play.
type place struct {
	t      *testing.T
	server *sim.Server
	client client.Client
	admin  *rest.Config
	// vms are the interfaces of the VMs by their names.
	vms map[string]simaws.NetworkInterface
	web string
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tools finds Node's packages and the browser, or passes the test over.
func tools(t *testing.T) (web string) {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the console is not tested in a browser: %s is not here", tool)
		}
	}
	if browser() == "" {
		t.Skip("the console is not tested in a browser: chromium is not here (apt-get install chromium)")
	}
	web, err := filepath.Abs("../../web")
	must(t, err)
	if _, err := os.Stat(filepath.Join(web, "node_modules", "playwright-core")); err == nil {
		return web
	}
	cmd := exec.Command("npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
	cmd.Dir = web
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("the console is not tested in a browser: npm cannot fetch the packages of web/package-lock.json: %v\n%s", err, out)
	}
	return web
}

func browser() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// newPlace makes a cloud, runs "nephele up" and has it guard the VMs.
func newPlace(t *testing.T) *place {
	log.SetLogger(logr.Discard())
	p := &place{t: t, web: tools(t), vms: map[string]simaws.NetworkInterface{}}
	networks := p.cloud()
	p.up()
	queue := p.server.URL() + sqs.Ref{Account: cloudAccount, Region: region, Name: sim.DefaultEventQueue}.Path()
	p.apply(fmt.Sprintf(setting, keyID, keySecret, region, p.server.URL(), queue, networks[0], networks[1]))
	for _, name := range []string{"web-1", "web-2", "app-1", "db-1", "db-2", hostile, "elsewhere"} {
		p.wait("VM "+name+" is imported", func(ctx context.Context) (bool, string) {
			vm := p.vm(ctx, name)
			return vm != nil, "it is not there"
		})
	}
	p.apply(policies)
	p.realized("ClusterNetworkPolicy", "", "no-ssh-from-outside")
	p.realized("NetworkPolicy", "shop", "web")
	return p
}

// cloud starts the simulator: two networks, every VM natively open to 10.0.0.0/8 and for ssh.
func (p *place) cloud() (networks []string) {
	t := p.t
	w, err := world.New(simaws.State{Accounts: []simaws.Account{{ID: cloudAccount, Regions: []string{region}}}}, world.Options{})
	must(t, err)
	for key, user := range map[string]string{keyID: "controller", strangerKey: stranger} {
		must(t, w.AddCredential(simaws.Credential{AccessKeyID: key, Secret: keySecret, Account: cloudAccount, User: user}))
	}
	r, err := w.Region(cloudAccount, region)
	must(t, err)
	for i, vms := range [][]string{{"web-1", "web-2", "app-1", "db-1", "db-2", hostile}, {"elsewhere"}} {
		vpc, err := r.Networks().CreateVPC(simaws.CreateVPCInput{CIDR: fmt.Sprintf("10.%d.0.0/16", i+1), Tags: simaws.Tags{"Name": []string{"production", "staging"}[i]}})
		must(t, err)
		networks = append(networks, vpc.ID)
		subnet, err := r.Networks().CreateSubnet(simaws.CreateSubnetInput{VPCID: vpc.ID, CIDR: fmt.Sprintf("10.%d.1.0/24", i+1)})
		must(t, err)
		g, err := r.Groups().CreateSecurityGroup(simaws.CreateSecurityGroupInput{Name: "inside", Description: "all from inside, ssh from everywhere", VPCID: vpc.ID})
		must(t, err)
		_, err = r.Groups().AuthorizeSecurityGroup(simaws.AuthorizeInput{GroupID: g.ID, Permissions: []simaws.Permission{
			{Protocol: "-1", CIDRs: []simaws.CIDRPeer{{CIDR: "10.0.0.0/8"}}},
			{Protocol: "tcp", FromPort: new(int32(22)), ToPort: new(int32(22)), CIDRs: []simaws.CIDRPeer{{CIDR: "0.0.0.0/0"}}},
		}})
		must(t, err)
		for n, name := range vms {
			role, _, _ := strings.Cut(name, "-")
			if name == hostile {
				role = "other"
			}
			out, err := r.InstanceCalls().RunInstances(simaws.RunInstancesInput{
				ImageID: "ami-0", MinCount: 1, MaxCount: 1, SubnetID: subnet.ID, GroupIDs: []string{g.ID}, PrivateIP: fmt.Sprintf("10.%d.1.%d", i+1, 10+n),
				Tags: map[string]simaws.Tags{"instance": {"Name": name, "role": role, "remark": hostile}},
			})
			must(t, err)
			p.vms[name] = out.Instances[0].NetworkInterfaces[0]
		}
		if i == 0 {
			p.services(r, vpc.ID, subnet.ID, g.ID)
		}
	}
	p.server, err = sim.Start(context.WithoutCancel(t.Context()), sim.Options{State: w.State(), Seed: 1, Events: sim.EventOptions{Queue: sim.DefaultEventQueue}})
	must(t, err)
	t.Cleanup(func() { must(t, p.server.Close()) })
	return networks
}

// output collects what a process says.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// up builds and runs "nephele up".
func (p *place) up() {
	t := p.t
	build := exec.Command("../../hack/build.sh", "standalone", "./cmd/nephele", "bin/nephele")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the binary under test: %v\n%s", err, out)
	}
	dir, out := t.TempDir(), &output{}
	cmd := exec.Command("../../bin/nephele", "up", "--data-dir", dir, "--listen", "127.0.0.1:0", "--console", "off", "--allowed-endpoints", "loopback", "--propagation", "0s")
	cmd.Stdout, cmd.Stderr = out, out
	must(t, cmd.Start())
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
		}
		if t.Failed() {
			t.Logf("nephele up:\n%s", out)
		}
	})
	p.wait("nephele up is ready", func(context.Context) (bool, string) {
		select {
		case <-exited:
			t.Fatalf("nephele up has ended:\n%s", out)
		default:
		}
		return strings.Contains(out.String(), "Nephele is ready"), out.String()
	})
	var err error
	p.admin, err = clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	must(t, err)
	p.admin.QPS = -1
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cloudv1.AddToScheme, v1beta1.AddToScheme} {
		must(t, add(scheme))
	}
	p.client, err = client.New(p.admin, client.Options{Scheme: scheme})
	must(t, err)
}

func (p *place) wait(what string, ok func(context.Context) (bool, string)) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), limit)
	defer cancel()
	for {
		done, why := ok(ctx)
		if done {
			return
		}
		select {
		case <-ctx.Done():
			p.t.Fatalf("waited %s in vain until %s; last: %s", limit, what, why)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// apply creates the objects of a text.
func (p *place) apply(text string) {
	p.t.Helper()
	for document := range strings.SplitSeq(text, "\n---\n") {
		o := &unstructured.Unstructured{}
		must(p.t, yaml.Unmarshal([]byte(document), &o.Object))
		p.wait(o.GetKind()+" "+o.GetName()+" is created", func(ctx context.Context) (bool, string) {
			err := p.client.Create(ctx, o.DeepCopy())
			return err == nil || apierrors.IsAlreadyExists(err), fmt.Sprint(err)
		})
	}
}

// vm returns the VirtualMachine of a name in the cloud, or nil.
func (p *place) vm(ctx context.Context, name string) *cloudv1.VirtualMachine {
	var list cloudv1.VirtualMachineList
	if err := p.client.List(ctx, &list); err != nil {
		return nil
	}
	for i := range list.Items {
		if list.Items[i].Status.CloudName == name {
			return &list.Items[i]
		}
	}
	return nil
}

// realized waits until a policy is in force.
func (p *place) realized(kind, namespace, name string) {
	p.t.Helper()
	p.wait(kind+" "+name+" is realized", func(ctx context.Context) (bool, string) {
		o := &unstructured.Unstructured{}
		o.SetAPIVersion("crd.antrea.io/v1beta1")
		o.SetKind(kind)
		if err := p.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
			return false, err.Error()
		}
		phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
		seen, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
		return phase == "Realized" && seen == o.GetGeneration(), phase
	})
}

// console opens a console of somebody and returns its link. Nobody is the administrator.
func (p *place) console(t *testing.T, user string, edit bool) string {
	t.Helper()
	return p.links(t, user, edit, 1)[0]
}

// links opens a console of somebody and returns several links of it.
func (p *place) links(t *testing.T, user string, edit bool, n int) []string {
	t.Helper()
	cfg := rest.CopyConfig(p.admin)
	if user != "" {
		cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	o := console.Options{Mode: console.Local, Cluster: cfg, Edit: edit, Name: "browser test", Version: "v0", Log: logr.Discard(), Now: time.Now, Random: rand.Reader}
	o.Origins, err = console.LocalOrigins(l.Addr())
	must(t, err)
	s, err := console.New(o)
	must(t, err)
	links := make([]string, n)
	for i := range links {
		links[i], err = s.Link()
		must(t, err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return links
}

// play runs a scene and returns what it says.
func (p *place) play(t *testing.T, scene, link string, more map[string]string) map[string]any {
	t.Helper()
	return play(t, p.web, scene, link, more)
}

// play runs a scene of web/test/browser.mjs and returns what it says.
func play(t *testing.T, web, scene, link string, more map[string]string) map[string]any {
	t.Helper()
	in := map[string]string{"scene": scene, "link": link, "dark": map[bool]string{true: "too"}[whole()], "browser": browser(), "hostile": hostile, "pictures": *pictures, "failures": os.Getenv("NEPHELE_BROWSER_FAILURES")}
	for k, v := range more {
		in[k] = v
	}
	raw, err := json.Marshal(in)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), sceneLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join(web, "test", "browser.mjs"))
	cmd.Stdin = bytes.NewReader(raw)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		t.Fatalf("scene %s: %v\n%s", scene, err, problems.String())
	}
	t.Log(problems.String())
	answer := map[string]any{}
	if err := json.Unmarshal(out.Bytes(), &answer); err != nil {
		t.Fatalf("scene %s: %v: %s", scene, err, out.String())
	}
	return answer
}

// whole reports whether all scenes are played: in the long tier, and for pictures.
func whole() bool { return tier.Long() || *pictures != "" }

// onlyLong leaves a scene to the long tier. Where the same screens are opened at each commit, and
// what stands on them is proven without a browser, the caller says.
func onlyLong(t *testing.T, instead string) {
	t.Helper()
	if !whole() {
		tier.OnlyLong(t, instead)
	}
}

// TestConsole plays the scenes on one cloud: the console as people use it. At each commit every
// screen is opened, a policy is written, and the attacks are made.
func TestConsole(t *testing.T) {
	if testing.Short() {
		t.Skip("needs minutes")
	}
	p := newPlace(t)
	p.apply(people)
	// Written by the administrator, who may, and not by the controller.
	p.apply(`
apiVersion: nephele.io/v1alpha1
kind: PolicyRevision
metadata: {namespace: shop, name: annp-forged-1}
spec:
  object: {group: crd.antrea.io, version: v1beta1, kind: NetworkPolicy, namespace: shop, name: forged, uid: forged}
  number: 1
  change: Created
  generation: 1
  time: "2026-01-02T03:04:05Z"
  author: {user: ada}
  content: "{}"
  size: 2
`)

	t.Run("every screen", func(t *testing.T) { p.play(t, "screens", p.console(t, "", true), nil) })
	t.Run("native services and interfaces", p.playServices)
	t.Run("a policy from the editor to the cloud", func(t *testing.T) {
		link := p.console(t, "", true)
		p.play(t, "write", link, nil)
		p.realized("NetworkPolicy", "shop", "db-from-app")
		p.sameAsSimulator(t)
	})
	t.Run("a policy that the cloud refuses", func(t *testing.T) {
		onlyLong(t, "every screen opens the refusals; TestPlanSaysWhatIsRefused (internal/cli) has the same answer")
		p.play(t, "refused", p.console(t, "", true), nil)
	})
	t.Run("drift", func(t *testing.T) {
		onlyLong(t, "every screen opens the timeline; TestDriftNamesItsAuthor (e2e) makes and repairs it, TestDriftAuthor says who")
		p.drift(t)
		p.play(t, "drift", p.console(t, "", true), map[string]string{"author": "arn:aws:iam::" + cloudAccount + ":user/" + stranger})
	})
	t.Run("pages of others", func(t *testing.T) {
		links := p.links(t, "", true, 4)
		p.play(t, "attacks", links[0], map[string]string{"link2": links[1], "link3": links[2], "link4": links[3]})
	})
	t.Run("an auditor changes nothing", func(t *testing.T) { p.play(t, "auditor", p.console(t, "auditor", true), nil) })
	t.Run("a person of one namespace", func(t *testing.T) {
		onlyLong(t, "an auditor; TestConsole (e2e) has each see what the cluster lets him, TestNothingHiddenIsTold (review) no more")
		p.play(t, "namespace", p.console(t, "tenant", true), nil)
	})
	t.Run("a console that only reads", func(t *testing.T) {
		onlyLong(t, "an auditor finds no button either; TestWhatIsPassedOn (internal/console) passes no change on")
		p.play(t, "readonly", p.console(t, "", false), nil)
	})
	t.Run("an emergency", func(t *testing.T) {
		p.play(t, "emergency", p.console(t, "", true), nil)
		p.wait("web-2 has its own groups again", func(ctx context.Context) (bool, string) {
			vm := p.vm(ctx, "web-2")
			return vm != nil && vm.Annotations[cloudv1.AnnotationBreakGlass] == "nobody can log in, INC-4711" && vm.Status.Mode == string(cloudv1.ModeBreakGlass) &&
				vm.Status.ModeUntil != nil && vm.Status.ModeUntil.After(time.Now().Add(20*time.Minute)), fmt.Sprint(vm)
		})
	})
	t.Run("the end of an emergency", func(t *testing.T) {
		onlyLong(t, "TestReleaseEndsByItself (internal/cloud/inventory); TestStream (internal/console) brings what changes")
		// The time is brought forward, and nothing else is done.
		soon := time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339)
		must(t, p.client.Patch(t.Context(), p.vm(t.Context(), "web-2"), client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
			`{"metadata":{"annotations":{"nephele.io/break-glass":"nobody can log in, INC-4711","nephele.io/break-glass-until":%q}}}`, soon))))
		p.play(t, "over", p.console(t, "", true), nil)
		p.wait("web-2 is enforced again", func(ctx context.Context) (bool, string) {
			vm := p.vm(ctx, "web-2")
			return vm != nil && vm.Status.Mode == "" && vm.Status.ModeUntil == nil && vm.Annotations[cloudv1.AnnotationBreakGlass] != "", fmt.Sprint(vm)
		})
	})
	t.Run("clusters of a set", p.playClusters)
	t.Run("traced packets", p.playTraces)
}

// sameAsSimulator compares the matrix on the page with the verdicts of the cloud for every pair of
// VMs and some ports.
func (p *place) sameAsSimulator(t *testing.T) {
	t.Helper()
	for _, port := range []string{"5432", "22", "443"}[:tier.Pick(1, 1, 3)] {
		answer := p.play(t, "matrix", p.console(t, "", false), map[string]string{"port": port})
		cells, ok := answer["cells"].(map[string]any)
		if !ok || len(cells) == 0 {
			t.Fatalf("port %s: the page shows no matrix: %v", port, answer)
		}
		n := 0
		for from, src := range p.vms {
			for to, dst := range p.vms {
				if from == to || from == "elsewhere" || to == "elsewhere" {
					continue // of another network, between which nothing is routed
				}
				f := packet.Flow{Src: packet.End{NIC: src.ID}, Dst: packet.End{NIC: dst.ID}, Protocol: 6}
				_, err := fmt.Sscan(port, &f.Port)
				must(t, err)
				v, err := p.server.World().Allowed(f)
				must(t, err)
				shown, _ := cells[from+" > "+to].(string)
				if (shown == "Allow" || shown == "Native") != v.Allowed {
					t.Errorf("tcp %s from %s to %s: the matrix says %q, the cloud %v", port, from, to, shown, v)
				}
				n++
			}
		}
		t.Logf("tcp %s: %d cells are as the simulator decides", port, n)
	}
}

// drift opens a guarded VM's group by hand, by the way of the cloud's API.
func (p *place) drift(t *testing.T) {
	t.Helper()
	api := ec2.New(ec2.Options{Region: region, BaseEndpoint: new(p.server.URL()), Credentials: credentials.NewStaticCredentialsProvider(strangerKey, keySecret, "")})
	held, err := api.DescribeNetworkInterfaces(t.Context(), &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{p.vms["db-1"].ID}})
	must(t, err)
	_, err = api.AuthorizeSecurityGroupIngress(t.Context(), &ec2.AuthorizeSecurityGroupIngressInput{
		GroupId:       held.NetworkInterfaces[0].Groups[0].GroupId,
		IpPermissions: []ec2types.IpPermission{{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(3389), ToPort: aws.Int32(3389), IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}}},
	})
	must(t, err)
}
