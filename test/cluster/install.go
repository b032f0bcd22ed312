package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// system is the namespace of Nephele.
const system = "kube-system"

// install applies what is shipped for clusters with agents on Nodes, all but the workloads, in
// whose place the programs run, and starts the controller.
func (c *Cluster) install(ctx context.Context) error {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(c.o.Manifests, "overlays/nodes"))
	if err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(c.Client.Discovery()))
	var left []*unstructured.Unstructured
	var texts [][]byte
	for _, r := range built.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return err
		}
		texts = append(texts, text)
	}
	var besides []string // what the chart installs for agents that lead to Services, and that encrypt
	if c.o.Proxy == "" {
		besides = append(besides, "nodes/services.yaml")
	}
	if c.o.Network != "" {
		besides = append(besides, "nodes/encryption.yaml", "nodes/egress.yaml")
	}
	for _, name := range besides {
		rights, err := os.ReadFile(filepath.Join(c.o.Manifests, name))
		if err != nil {
			return err
		}
		texts = append(texts, bytes.Split(rights, []byte("\n---\n"))...)
	}
	for _, text := range texts {
		o := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(text, &o.Object); err != nil {
			return err
		}
		switch o.GetKind() {
		case "Deployment", "DaemonSet":
			continue
		case "Service":
			// No Pod is behind it.
			unstructured.RemoveNestedField(o.Object, "spec", "selector")
		}
		left = append(left, o)
	}
	// Some need kinds that others define.
	err = c.eventually(ctx, "the manifests are applied", func(ctx context.Context) error {
		var again []*unstructured.Unstructured
		var all []error
		for _, o := range left {
			if err := apply(ctx, client, mapper, o); err != nil {
				again, all = append(again, o), append(all, err)
			}
		}
		left = again
		mapper.Reset()
		return errors.Join(all...)
	})
	if err != nil {
		return err
	}
	name, port, protocol := "api", int32(apiPort), corev1.ProtocolTCP
	_, err = c.Client.DiscoveryV1().EndpointSlices(system).Create(ctx, &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "antrea-controller", Labels: map[string]string{discoveryv1.LabelServiceName: "antrea"}},
		AddressType: discoveryv1.AddressType(c.primary().family),
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{c.primary().control()}}},
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	kubeconfig, err := c.as(ctx, "nephele-controller", "")
	if err != nil {
		return err
	}
	err = c.program("nephele-controller", c.o.Nephele, "controller", "--kubeconfig="+kubeconfig, "--no-clouds", "--metrics=0",
		"--api="+net.JoinHostPort(c.primary().control(), fmt.Sprint(apiPort)), "--api-cert-dir="+filepath.Join(c.o.Dir, "api"))
	if err != nil {
		return err
	}
	return c.eventually(ctx, "the computed API is served", func(ctx context.Context) error {
		return c.Client.Discovery().RESTClient().Get().AbsPath("/apis/controlplane.antrea.io/v1beta2").Do(ctx).Error()
	})
}

func apply(ctx context.Context, client dynamic.Interface, mapper *restmapper.DeferredDiscoveryRESTMapper, o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	m, err := mapper.RESTMapping(schema.GroupKind{Group: kind.Group, Kind: kind.Kind}, kind.Version)
	if err != nil {
		return err
	}
	var of dynamic.ResourceInterface = client.Resource(m.Resource)
	if o.GetNamespace() != "" {
		of = client.Resource(m.Resource).Namespace(o.GetNamespace())
	}
	_, err = of.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "cluster", Force: true})
	return err
}
