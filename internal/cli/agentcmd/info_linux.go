package agentcmd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/nephele-io/nephele/api/antrea/v1beta1"
	cloudv1alpha1 "github.com/nephele-io/nephele/api/cloud/v1alpha1"
	"github.com/nephele-io/nephele/internal/agent"
	"github.com/nephele-io/nephele/internal/agent/network"
	"github.com/nephele-io/nephele/internal/agent/nft"
	"github.com/nephele-io/nephele/internal/agent/nft/ruleset"
	"github.com/nephele-io/nephele/internal/cloud/handover"
	"github.com/nephele-io/nephele/internal/enroll/credential"
)

const (
	// mostNotEnforceable is of how many Pods on which policies cannot be enforced the agent tells,
	// mostFilters of how many filters of others, and mostFailsafe of how many failsafe flows, and
	// addresses of each.
	mostNotEnforceable = 100
	mostFilters        = 20
	mostFailsafe       = 64
)

// infoClient reads and writes AntreaAgentInfos, at kube-apiserver or at a server of hosts, which
// serves nothing by which a client could find out more.
type infoClient struct{ rest *rest.RESTClient }

// infos returns a client with the present credentials.
func (f *agentFlags) infos(over ...transport.WrapperFunc) (infoClient, error) {
	given, err := f.cluster.Config()
	if err != nil {
		return infoClient{}, err
	}
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil {
		return infoClient{}, fmt.Errorf("agent info: %w", err)
	}
	cfg, gv := rest.CopyConfig(given), v1beta1.GroupVersion()
	for _, o := range over {
		cfg.Wrap(o)
	}
	cfg.APIPath, cfg.GroupVersion, cfg.NegotiatedSerializer = "/apis", &gv, serializer.NewCodecFactory(scheme).WithoutConversion()
	cfg.ContentType, cfg.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	c, err := rest.RESTClientFor(cfg)
	if err != nil {
		return infoClient{}, fmt.Errorf("agent info: %w", err)
	}
	return infoClient{c}, nil
}

// get returns the info of a host; of the Node of the name, if it has no namespace. Where somebody
// else has the name, it is called otherwise.
func (c infoClient) get(ctx context.Context, host credential.Host) (*v1beta1.AntreaAgentInfo, error) {
	info := &v1beta1.AntreaAgentInfo{}
	err := c.rest.Get().Resource("antreaagentinfos").Name(host.Name).Do(ctx).Into(info)
	own := v1beta1.ObjectReference{Kind: "ExternalNode", Namespace: host.Namespace, Name: host.Name}
	others := err == nil && info.NodeRef != (v1beta1.ObjectReference{}) && info.NodeRef != own
	if host.Namespace == "" || err == nil && !others || err != nil && !apierrors.IsNotFound(err) {
		return info, err
	}
	info = &v1beta1.AntreaAgentInfo{}
	return info, c.rest.Get().Resource("antreaagentinfos").Name(host.InfoName()).Do(ctx).Into(info)
}

func (c infoClient) update(ctx context.Context, info *v1beta1.AntreaAgentInfo) error {
	return c.rest.Put().Resource("antreaagentinfos").Name(info.Name).Body(info).Do(ctx).Error()
}

// skew is by how much the clock of the host is before the controller's. Answers say what time it is
// there.
type skew struct{ nanoseconds atomic.Int64 }

func (s *skew) get() time.Duration { return time.Duration(s.nanoseconds.Load()) }

// heard takes in what an answer says.
func (s *skew) heard(sent, received time.Time, date string) {
	if there, err := http.ParseTime(date); err == nil {
		s.nanoseconds.Store(int64(sent.Add(received.Sub(sent) / 2).Sub(there.Add(time.Second / 2)))) // it is in whole seconds
	}
}

// over returns what takes in the answers that come by another one.
func (s *skew) over(next http.RoundTripper) http.RoundTripper { return &skewed{s, next} }

type skewed struct {
	skew *skew
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s *skewed) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := time.Now()
	answer, err := s.next.RoundTrip(r)
	if err == nil {
		s.skew.heard(sent, time.Now(), answer.Header.Get("Date"))
	}
	return answer, err
}

// agentInfo fills in the AntreaAgentInfo of the host, which the controller has made.
func agentInfo(f *agentFlags, clocks *skew) func(context.Context, *agent.Status) error {
	return func(ctx context.Context, s *agent.Status) error {
		c, err := f.infos(clocks.over)
		if err != nil {
			return err
		}
		namespace, name, _ := strings.Cut(f.node, "/")
		if f.kubeNode != "" {
			name = f.kubeNode
		}
		info, err := c.get(ctx, credential.Host{Namespace: namespace, Name: name})
		if apierrors.IsNotFound(err) {
			return agent.ErrNoInfo // of a server that makes none, or not yet
		} else if err != nil {
			return err
		}
		info.Version = f.version
		fillAgentInfo(info, s, namespace, name, metav1.Now())
		return c.update(ctx, info)
	}
}

// yield agrees with the controller that the host isolates no other directions any more. Both write
// the AntreaAgentInfo as they have read it, so that of the two, to open here and to open in the
// cloud, only one can be.
func yield(f *agentFlags) func(context.Context, agent.Isolated) (bool, error) {
	return func(ctx context.Context, isolates agent.Isolated) (bool, error) {
		c, err := f.infos()
		if err != nil {
			return false, err
		}
		namespace, name, _ := strings.Cut(f.node, "/")
		info, err := c.get(ctx, credential.Host{Namespace: namespace, Name: name})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			return true, nil // then nothing was ever left to this agent
		}
		if err != nil {
			return false, err
		}
		_, directions, _ := strings.Cut(info.Annotations[cloudv1alpha1.AnnotationCloudLetsIn], " ")
		open, keeps := handover.ParseDirections(directions), handover.Directions(isolates)
		if open.And(keeps) != open {
			return false, nil
		}
		if info.Annotations[cloudv1alpha1.AnnotationIsolates] == keeps.String() {
			return true, nil
		}
		metav1.SetMetaDataAnnotation(&info.ObjectMeta, cloudv1alpha1.AnnotationIsolates, keeps.String())
		return true, c.update(ctx, info)
	}
}

func fillAgentInfo(info *v1beta1.AntreaAgentInfo, s *agent.Status, namespace, name string, now metav1.Time) {
	if info.Labels == nil {
		info.Labels = map[string]string{}
	}
	if namespace != "" {
		info.Labels[cloudv1alpha1.LabelAllowIsolates], info.Labels[cloudv1alpha1.LabelHeedsCloud] = "true", "true"
		metav1.SetMetaDataAnnotation(&info.ObjectMeta, cloudv1alpha1.AnnotationIsolates, handover.Directions{s.Kernel.IsolatedIngress, s.Kernel.IsolatedEgress}.String())
		metav1.SetMetaDataAnnotation(&info.ObjectMeta, cloudv1alpha1.AnnotationHostFailsafe, failsafeText(s.Host.Failsafe))
		metav1.SetMetaDataAnnotation(&info.ObjectMeta, cloudv1alpha1.AnnotationForwards, strings.Join(s.Host.Forwards, ","))
		info.NodeRef = v1beta1.ObjectReference{Kind: "ExternalNode", Namespace: namespace, Name: name}
	} else {
		info.NodeRef = v1beta1.ObjectReference{Kind: "Node", Name: name}
		if s.Pods != nil {
			info.LocalPodNum, info.NodeSubnets = int32(s.Pods.Known), s.Pods.Ranges
			told := s.Pods.NotEnforceable[:min(len(s.Pods.NotEnforceable), mostNotEnforceable)]
			metav1.SetMetaDataAnnotation(&info.ObjectMeta, cloudv1alpha1.AnnotationNotEnforceable, strings.Join(told, "\n"))
		}
		fillNetwork(info, networkOf(s))
	}
	metav1.SetMetaDataAnnotation(&info.ObjectMeta, cloudv1alpha1.AnnotationKernel, kernelRelease())
	metav1.SetMetaDataAnnotation(&info.ObjectMeta, cloudv1alpha1.AnnotationForeignFilters, strings.Join(s.Host.Foreign[:min(len(s.Host.Foreign), mostFilters)], "\n"))
	info.NetworkPolicyControllerInfo = v1beta1.NetworkPolicyControllerInfo{
		NetworkPolicyNum: int32(len(s.Policies)), AddressGroupNum: int32(s.Server.AddressGroups), AppliedToGroupNum: int32(s.Server.AppliedToGroups),
	}
	condition := func(t v1beta1.AgentConditionType, ok bool, reason, message string) v1beta1.AgentCondition {
		c := v1beta1.AgentCondition{Type: t, Status: metav1.ConditionTrue, LastHeartbeatTime: now, Message: message}
		if !ok {
			c.Status, c.Reason = metav1.ConditionFalse, reason
		}
		return c
	}
	healthy, reason := s.State == agent.StateEnforcing || s.State == agent.StateKept, string(s.State)
	says := s.Kernel.Error
	switch partial := s.Partial(); {
	case s.State == agent.StateReleased:
		says = "released on the host until " + s.ReleasedUntil.UTC().Format(time.RFC3339)
	case healthy && partial != "":
		healthy, reason, says = false, cloudv1alpha1.ReasonPartial, partial+"; "+summary(s)
	case healthy:
		says = summary(s)
		if t := networkOf(s).Trouble(); t != "" {
			says = "the network of the Node: " + t + "; " + says
		}
	case says == "":
		says = strings.TrimPrefix(asides(s), "; ")
	}
	info.AgentConditions = []v1beta1.AgentCondition{
		condition(v1beta1.AgentHealthy, healthy, reason, says),
		condition(v1beta1.ControllerConnectionUp, s.Server.Connected, "NotInSync", s.Server.Error),
	}
}

// kernelRelease is that of the running kernel; empty if it does not tell.
func kernelRelease() string {
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(release))
}

// networkOf is how the network of the Node stands, with what is wrong with our plugin; nil where
// another one makes it.
func networkOf(s *agent.Status) *network.Status {
	if s.Network == nil || s.Faults.Plugin == "" {
		return s.Network
	}
	out := *s.Network
	out.Problems = append(slices.Clone(out.Problems), "the CNI plugin: "+s.Faults.Plugin)
	return &out
}

// fillNetwork reports the network of the Node, where the agent makes it.
func fillNetwork(info *v1beta1.AntreaAgentInfo, n *network.Status) {
	info.NetworkInfo = v1beta1.NetworkInfo{}
	delete(info.Annotations, cloudv1alpha1.AnnotationNetwork)
	if n == nil {
		return
	}
	info.NetworkInfo.PodMTU = int32(n.MTU)
	if len(n.Links) > 0 {
		info.NetworkInfo.TransportInterface, info.NetworkInfo.TransportInterfaceMTU = n.Links[0].Link, int32(n.Links[0].MTU)
	}
	if n.Local.IsValid() {
		info.NetworkInfo.TransportInterfaceIPs = []string{n.Local.String()}
	}
	if text, err := json.Marshal(n); err == nil {
		metav1.SetMetaDataAnnotation(&info.ObjectMeta, cloudv1alpha1.AnnotationNetwork, string(text))
	}
}

// failsafeText is what the agent reports of its failsafe flows, without flows of one source port
// (DHCP), of which questions know nothing.
func failsafeText(flows []nft.Failsafe) string {
	told := []cloudv1alpha1.FailsafeFlow{}
	for _, f := range flows[:min(len(flows), mostFailsafe)] {
		if f.SourcePort != 0 {
			continue
		}
		port := int32(f.Port)
		t := cloudv1alpha1.FailsafeFlow{Direction: "Ingress", Protocol: "TCP", Port: &port}
		if f.Direction == ruleset.Egress {
			t.Direction = "Egress"
		}
		if f.Protocol == ruleset.UDP {
			t.Protocol = "UDP"
		}
		for _, c := range f.CIDRs[:min(len(f.CIDRs), mostFailsafe)] {
			t.CIDRs = append(t.CIDRs, c.String())
		}
		told = append(told, t)
	}
	text, err := json.Marshal(told)
	if err != nil { // of texts and numbers, never
		return ""
	}
	return string(text)
}

// summary is what an agent that is healthy tells about itself.
func summary(s *agent.Status) string {
	refused := 0
	for _, p := range s.Policies {
		if !p.Enforced {
			refused++
		}
	}
	text := fmt.Sprintf("nftables: %d rules, %d elements of sets; %d of %d policies enforced", s.Kernel.Rules, s.Kernel.Elements, len(s.Policies)-refused, len(s.Policies))
	if !s.Kernel.LastWrite.IsZero() {
		text += fmt.Sprintf("; the last change took %d ms, at %s", s.Kernel.LastWriteMilliseconds, s.Kernel.LastWrite.UTC().Format(time.RFC3339))
	}
	return text + asides(s)
}

// asides are further facts for users of the agent, each after a semicolon.
func asides(s *agent.Status) string {
	text := ""
	if s.State == agent.StateKept {
		text += "; the controller is away, and what it said last is in force"
	}
	if len(s.Host.Forwards) > 0 && s.Pods == nil {
		text += "; the host routes " + strings.Join(s.Host.Forwards, " and ") + ", which its policies do not judge"
	}
	drops := 0
	for _, f := range s.Host.Foreign {
		if strings.Contains(f, "drops") {
			drops++
		}
	}
	if len(s.Host.Foreign) > 0 {
		text += fmt.Sprintf("; %d filters of others are there, %d of them drop what they do not decide", len(s.Host.Foreign), drops)
	}
	for _, t := range s.Troubles() {
		if t.Text != "" {
			text += "; trouble with " + t.With
		}
	}
	return text
}
