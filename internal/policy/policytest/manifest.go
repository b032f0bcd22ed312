package policytest

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nephele-io/nephele/internal/policy"
)

// World is a set of inputs for the engine, by identity.
type World struct {
	Namespaces map[string]policy.Namespace
	Entities   map[policy.EntityRef]policy.Entity
	Services   map[policy.NamespacedName]policy.Service
	Tiers      map[string]policy.Tier
	Groups     map[policy.NamespacedName]policy.Group
	Policies   map[string]policy.Policy
}

// NewWorld returns an empty world.
func NewWorld() *World {
	return &World{
		Namespaces: map[string]policy.Namespace{},
		Entities:   map[policy.EntityRef]policy.Entity{},
		Services:   map[policy.NamespacedName]policy.Service{},
		Tiers:      map[string]policy.Tier{},
		Groups:     map[policy.NamespacedName]policy.Group{},
		Policies:   map[string]policy.Policy{},
	}
}

// ReadManifests reads a stream of JSON documents separated by lines of "---", in order, and calls
// add for each object with the change it stands for. Kinds that the engine does not know are passed
// over.
func ReadManifests(text string, add func(Object) error) error {
	for i, doc := range strings.Split(text, "\n---\n") {
		doc = strings.TrimPrefix(strings.TrimSpace(doc), "---")
		if doc == "" {
			continue
		}
		var m manifest
		if err := json.Unmarshal([]byte(doc), &m); err != nil {
			return fmt.Errorf("document %d: %w", i, err)
		}
		o, err := m.object()
		if err != nil {
			return fmt.Errorf("document %d: %w", i, err)
		}
		if o == nil {
			continue
		}
		if err := add(o); err != nil {
			return err
		}
	}
	return nil
}

// Object is one of policy.Namespace, Entity, Service, Tier, Group and Policy.
type Object any

type manifest struct {
	APIVersion string          `json:"apiVersion"`
	Kind       string          `json:"kind"`
	Metadata   metadata        `json:"metadata"`
	Spec       json.RawMessage `json:"spec"`
	Status     struct {
		Phase     string `json:"phase"`
		PodIPs    []ip   `json:"podIPs"`
		Addresses []struct {
			Address string `json:"address"`
		} `json:"addresses"`
	} `json:"status"`
}

type metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	UID         string            `json:"uid"`
	Generation  int64             `json:"generation"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

type ip struct {
	IP string `json:"ip"`
}

func (m *manifest) object() (Object, error) {
	switch group, _, _ := strings.Cut(m.APIVersion, "/"); {
	case m.Kind == "Namespace":
		labels := map[string]string{"kubernetes.io/metadata.name": m.Metadata.Name}
		for k, v := range m.Metadata.Labels {
			labels[k] = v
		}
		return policy.Namespace{
			Name: m.Metadata.Name, Labels: labels,
			LogNetworkPolicies: m.Metadata.Annotations["networkpolicy.antrea.io/enable-logging"] == "true",
		}, nil
	case m.Kind == "Pod":
		return m.pod()
	case m.Kind == "Node":
		return m.node()
	case m.Kind == "Service":
		var spec struct {
			Selector map[string]string `json:"selector"`
		}
		err := json.Unmarshal(m.Spec, &spec)
		return policy.Service{Namespace: m.Metadata.Namespace, Name: m.Metadata.Name, Selector: spec.Selector}, err
	case m.Kind == "ExternalEntity":
		return m.externalEntity()
	case m.Kind == "Tier":
		var spec struct {
			Priority int32 `json:"priority"`
		}
		err := json.Unmarshal(m.Spec, &spec)
		return policy.Tier{Name: m.Metadata.Name, Priority: spec.Priority}, err
	case m.Kind == "Group" || m.Kind == "ClusterGroup":
		return m.group()
	case m.Kind == "NetworkPolicy" && group == "networking.k8s.io":
		return m.kubernetesPolicy()
	case m.Kind == "NetworkPolicy":
		return m.antreaPolicy(policy.AntreaNetworkPolicy)
	case m.Kind == "ClusterNetworkPolicy":
		return m.antreaPolicy(policy.AntreaClusterNetworkPolicy)
	}
	return nil, nil
}

func (m *manifest) ref(kind policy.EntityKind) policy.EntityRef {
	return policy.EntityRef{Kind: kind, Namespace: m.Metadata.Namespace, Name: m.Metadata.Name}
}

func addresses(in []ip) ([]netip.Addr, error) {
	var out []netip.Addr
	for _, i := range in {
		a, err := netip.ParseAddr(i.IP)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

func (m *manifest) pod() (Object, error) {
	var spec struct {
		NodeName           string `json:"nodeName"`
		HostNetwork        bool   `json:"hostNetwork"`
		ServiceAccountName string `json:"serviceAccountName"`
		Containers         []struct {
			Ports []struct {
				Name          string          `json:"name"`
				ContainerPort int32           `json:"containerPort"`
				Protocol      policy.Protocol `json:"protocol"`
			} `json:"ports"`
		} `json:"containers"`
	}
	if err := json.Unmarshal(m.Spec, &spec); err != nil {
		return nil, err
	}
	out := policy.Entity{
		EntityRef: m.ref(policy.KindPod), Labels: m.Metadata.Labels, Host: spec.NodeName,
		ServiceAccount: spec.ServiceAccountName, HostNetwork: spec.HostNetwork,
		Terminated: m.Status.Phase == "Succeeded" || m.Status.Phase == "Failed",
	}
	for _, c := range spec.Containers {
		for _, p := range c.Ports {
			if p.Name != "" {
				out.Ports = append(out.Ports, policy.NamedPort{Name: p.Name, Port: p.ContainerPort, Protocol: p.Protocol})
			}
		}
	}
	var err error
	out.Addresses, err = addresses(m.Status.PodIPs)
	return out, err
}

func (m *manifest) node() (Object, error) {
	out := policy.Entity{EntityRef: m.ref(policy.KindNode), Labels: m.Metadata.Labels}
	for _, a := range m.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil {
			out.Addresses = append(out.Addresses, addr)
		}
	}
	slices.SortFunc(out.Addresses, netip.Addr.Compare)
	return out, nil
}

func (m *manifest) externalEntity() (Object, error) {
	var spec struct {
		Endpoints    []ip   `json:"endpoints"`
		ExternalNode string `json:"externalNode"`
		Ports        []struct {
			Name     string          `json:"name"`
			Port     int32           `json:"port"`
			Protocol policy.Protocol `json:"protocol"`
		} `json:"ports"`
	}
	if err := json.Unmarshal(m.Spec, &spec); err != nil {
		return nil, err
	}
	out := policy.Entity{EntityRef: m.ref(policy.KindExternalEntity), Labels: m.Metadata.Labels, Host: spec.ExternalNode}
	for _, p := range spec.Ports {
		out.Ports = append(out.Ports, policy.NamedPort{Name: p.Name, Port: p.Port, Protocol: p.Protocol})
	}
	var err error
	out.Addresses, err = addresses(spec.Endpoints)
	return out, err
}

type selector struct {
	MatchLabels      map[string]string `json:"matchLabels"`
	MatchExpressions []struct {
		Key      string   `json:"key"`
		Operator string   `json:"operator"`
		Values   []string `json:"values"`
	} `json:"matchExpressions"`
}

func (s *selector) policy() *policy.Selector {
	if s == nil {
		return nil
	}
	out := &policy.Selector{MatchLabels: s.MatchLabels}
	for _, r := range s.MatchExpressions {
		out.MatchExpressions = append(out.MatchExpressions, policy.Requirement(r))
	}
	return out
}

type ipBlock struct {
	CIDR   string   `json:"cidr"`
	Except []string `json:"except"`
}

type named struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

func (n *named) policy() *policy.NamespacedName {
	if n == nil {
		return nil
	}
	return &policy.NamespacedName{Namespace: n.Namespace, Name: n.Name}
}

// group decodes a Group or ClusterGroup.
func (m *manifest) group() (Object, error) {
	var spec struct {
		PodSelector            *selector `json:"podSelector"`
		NamespaceSelector      *selector `json:"namespaceSelector"`
		ExternalEntitySelector *selector `json:"externalEntitySelector"`
		NodeSelector           *selector `json:"nodeSelector"`
		IPBlocks               []ipBlock `json:"ipBlocks"`
		ServiceReference       *named    `json:"serviceReference"`
		ChildGroups            []string  `json:"childGroups"`
	}
	if err := json.Unmarshal(m.Spec, &spec); err != nil {
		return nil, err
	}
	out := policy.Group{
		Namespace: m.Metadata.Namespace, Name: m.Metadata.Name, UID: m.Metadata.UID,
		PodSelector: spec.PodSelector.policy(), NamespaceSelector: spec.NamespaceSelector.policy(),
		ExternalEntitySelector: spec.ExternalEntitySelector.policy(), NodeSelector: spec.NodeSelector.policy(),
		ServiceReference: spec.ServiceReference.policy(), ChildGroups: spec.ChildGroups,
	}
	for _, b := range spec.IPBlocks {
		out.IPBlocks = append(out.IPBlocks, policy.IPBlock(b))
	}
	return out, nil
}
