package cli

import (
	"encoding/json"
	"strings"
	"testing"

	analysis "github.com/nephele-io/nephele/api/analysis/v1alpha1"
)

// stage has VMs with agentless and agented enforcement, Pods and policies of every kind.
const stage = `
apiVersion: v1
kind: Namespace
metadata: {name: vms, labels: {env: prod}}
---
apiVersion: v1
kind: Namespace
metadata: {name: app}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: web, namespace: vms, labels: {role: web}}
spec: {externalNode: cloud-a, endpoints: [{ip: 10.0.1.1}, {ip: 2001:db8::1}]}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata:
  name: virtualmachine-i-0db
  namespace: vms
  labels: {role: db, nephe.antrea.io/owner-vm: i-0db, nephe.antrea.io/cloud-vm-name: primary-db}
spec: {externalNode: cloud-a, endpoints: [{ip: 10.0.2.1}], ports: [{name: sql, port: 5432}]}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: twin, namespace: app}
spec: {endpoints: [{ip: 10.0.9.9}]}
---
apiVersion: v1
kind: Pod
metadata: {name: twin, namespace: app, labels: {role: client}}
spec: {nodeName: n1, containers: [{name: c, image: x}]}
status: {podIPs: [{ip: 10.244.1.1}]}
---
apiVersion: v1
kind: Pod
metadata: {name: hosted, namespace: app, labels: {role: client}}
spec: {nodeName: n1, hostNetwork: true, containers: [{name: c, image: x}]}
status: {podIPs: [{ip: 192.168.0.1}]}
---
apiVersion: crd.antrea.io/v1alpha1
kind: ExternalNode
metadata: {name: agented, namespace: vms, labels: {role: db}}
spec: {interfaces: [{name: eth0, ips: [10.0.2.9]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: lonely, namespace: app, labels: {role: lonely}}
spec: {nodeName: n1, containers: [{name: c, image: x}]}
status: {podIPs: [{ip: 10.244.1.2}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: deny, namespace: app}
spec: {podSelector: {matchLabels: {role: lonely}}, policyTypes: [Ingress]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: db, namespace: vms}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {role: db}}}]
  ingress:
  - {name: web, action: Allow, from: [{externalEntitySelector: {matchLabels: {role: web}}}], ports: [{port: sql}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: guard}
spec:
  priority: 1
  tier: emergency
  appliedTo: [{externalEntitySelector: {matchLabels: {role: db}}}]
  ingress:
  - {name: skip, action: Pass, from: [{ipBlock: {cidr: 10.77.0.0/16}}]}
  - {name: stop, action: Reject, from: [{ipBlock: {cidr: 203.0.113.0/24}}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: names}
spec:
  priority: 1
  appliedTo: [{podSelector: {matchLabels: {role: client}}}]
  egress:
  - {name: example, action: Drop, to: [{fqdn: "*.example.com"}], ports: [{port: 443}]}
  - {name: v4only, action: Drop, to: [{ipBlock: {cidr: 192.0.2.0/24}}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: ClusterNetworkPolicy
metadata: {name: services}
spec:
  priority: 2
  appliedTo: [{podSelector: {matchLabels: {role: lonely}}}]
  egress:
  - {name: svc, action: Reject, toServices: [{name: s, namespace: app}]}
  ingress:
  - {name: web, action: Allow, ports: [{port: 80}], l7Protocols: [{http: {host: x}}], from: [{ipBlock: {cidr: 203.0.113.0/24}}]}
`

func TestExplain(t *testing.T) {
	input := file(t, "stage.yaml", stage)
	for name, c := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"allowed by a named port": {
			[]string{"--from", "vms/web", "--to", "vms/i-0db", "--port", "5432"}, ExitDone,
			[]string{
				"ExternalEntity vms/web -> VM vms/primary-db, TCP port 5432: Native\n",
				"egress  Native: no policy decides; the security groups that the machine has of its own do",
				`ingress Allow: rule "web" (AntreaNetworkPolicy vms/db, tier 250, priority 5, rule 0)`,
			},
		},
		"by address, and by the name in the cloud": {
			[]string{"--from", "10.0.1.1", "--to", "vms/primary-db", "--port", "sql"}, ExitDone,
			[]string{"ExternalEntity vms/web -> ", `ingress Allow: rule "web"`},
		},
		"passed": {
			[]string{"--from", "10.77.0.1", "--to", "vms/i-0db", "--port", "5432"}, ExitNo,
			[]string{`passed: rule "skip" (AntreaClusterNetworkPolicy guard, tier 50, priority 1, rule 0)`},
		},
		"rejected": {
			[]string{"--from", "203.0.113.7", "--to", "vms/i-0db", "--port", "5432"}, ExitNo,
			[]string{"Reject", `rule "stop" (AntreaClusterNetworkPolicy guard, tier 50, priority 1, rule 1)`, "an address; no policy applies there"},
		},
		"isolated": {
			[]string{"--from", "198.51.100.1", "--to", "vm/vms/i-0db", "--port", "22"}, ExitNo,
			[]string{": Drop\n", "isolated by AntreaNetworkPolicy vms/db"},
		},
		"open VM": {
			[]string{"--from", "198.51.100.1", "--to", "vms/web", "--port", "22"}, ExitDone,
			[]string{": Native\n", "the security groups that the machine has of its own do"},
		},
		"open Pod": {
			[]string{"--from", "ee/app/twin", "--to", "pod/app/twin", "--port", "22"}, ExitDone,
			[]string{"no policy decides; it is let through"},
		},
		"Kubernetes isolation": {
			[]string{"--from", "pod/app/twin", "--to", "app/lonely", "--port", "80"}, ExitNo,
			[]string{": Drop\n", "K8sNetworkPolicy app/deny"},
		},
		"unknown": {
			[]string{"--from", "pod/app/twin", "--to", "198.51.100.1", "--port", "443"}, ExitNo,
			[]string{": Unknown\n", `depending on a name or Service: rule "example"`, ", if the destination is *.example.com"},
		},
		"unknown because of a Service": {
			[]string{"--from", "app/lonely", "--to", "198.51.100.1", "--port", "443"}, ExitNo,
			[]string{"egress  Unknown: only the enforcer knows", `depending on a name or Service: rule "svc"`, ", if the destination is Service app/s"},
		},
		"a VM with an agent is not isolated": {
			[]string{"--from", "198.51.100.1", "--to", "10.0.2.9", "--port", "22"}, ExitDone,
			[]string{"ExternalEntity vms/agented-", ": Allow\n", "ingress Allow: no policy decides; it is let through"},
		},
		"but its rules hold": {
			[]string{"--from", "203.0.113.7", "--to", "10.0.2.9", "--port", "22"}, ExitNo,
			[]string{`ingress Reject: rule "stop"`},
		},
		"application protocols": {
			[]string{"--from", "203.0.113.7", "--to", "app/lonely", "--port", "80"}, ExitDone,
			[]string{`ingress Allow: rule "web" (AntreaClusterNetworkPolicy services, tier 250, priority 2, rule 0), as far as its l7Protocols let it`},
		},
		"nobody enforces": {
			[]string{"--from", "ee/app/twin", "--to", "app/hosted", "--port", "22"}, ExitDone,
			[]string{
				"egress  Allow: no enforcer is responsible for it",
				"Pod app/hosted in the network of Node n1", "ingress Allow: no policy decides; it is let through",
			},
		},
		"ICMP": {
			[]string{"--from", "vms/web", "--to", "198.51.100.1", "--protocol", "icmp", "--icmp-type", "8"}, ExitDone,
			[]string{"ICMP type 8 code 0: Native"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := nephele(t, "", append([]string{"explain", "-f", input}, c.args...)...)
			if r.code != c.code {
				t.Errorf("exit %d, want %d", r.code, c.code)
			}
			for _, want := range c.want {
				if !strings.Contains(r.stdout, want) {
					t.Errorf("no %q in\n%s%s", want, r.stdout, r.err)
				}
			}
		})
	}
}

func TestExplainJSON(t *testing.T) {
	r := nephele(t, stage, "explain", "-f", "-", "--from", "10.77.0.1", "--to", "vms/i-0db", "--protocol", "tcp", "--port", "22", "-o", "json")
	var got analysis.FlowAnswer
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.code != ExitNo {
		t.Fatalf("%v: %+v", err, r)
	}
	if got.Verdict != "Drop" || got.Ingress.Default != "isolated" || got.Egress.Default != "none" || got.To.Name != "virtualmachine-i-0db" ||
		len(got.Ingress.Passed) != 1 || got.Ingress.Passed[0].Name != "skip" {
		t.Errorf("%s", r.stdout)
	}
}

func TestExplainDependsOnAddress(t *testing.T) {
	const two = `
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: a, namespace: default, labels: {x: a}}
spec: {externalNode: k, endpoints: [{ip: 10.0.0.1}, {ip: 10.9.0.1}, {ip: "2001:db8::1"}]}
---
apiVersion: crd.antrea.io/v1alpha2
kind: ExternalEntity
metadata: {name: b, namespace: default, labels: {x: b}}
spec: {externalNode: k, endpoints: [{ip: 10.0.0.2}]}
---
apiVersion: crd.antrea.io/v1beta1
kind: NetworkPolicy
metadata: {name: p, namespace: default}
spec:
  priority: 5
  appliedTo: [{externalEntitySelector: {matchLabels: {x: b}}}]
  ingress: [{name: one, action: Allow, from: [{ipBlock: {cidr: 10.9.0.0/16}}]}]
`
	r := nephele(t, two, "explain", "-f", "-", "--from", "default/a", "--to", "default/b", "--port", "80")
	for _, want := range []string{": Mixed\n", "10.0.0.1 -> 10.0.0.2: Drop", "10.9.0.1 -> 10.0.0.2: Native"} {
		if r.code != ExitNo || !strings.Contains(r.stdout, want) {
			t.Errorf("exit %d, no %q in\n%s", r.code, want, r.stdout)
		}
	}
	r = nephele(t, two, "explain", "-f", "-", "--from", "2001:db8::7", "--to", "default/b", "--port", "80")
	if r.code != ExitBadInput || !strings.Contains(r.err, "no addresses of the same family") {
		t.Errorf("%+v", r)
	}
}

func TestExplainBadQuestions(t *testing.T) {
	input := file(t, "stage.yaml", stage)
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no such end":      {[]string{"--from", "vms/nobody", "--to", "vms/web", "--port", "1"}, `--from "vms/nobody": there is no`},
		"form":             {[]string{"--from", "web", "--to", "vms/web", "--port", "1"}, `--from "web": want NAMESPACE/NAME`},
		"two of that name": {[]string{"--from", "vms/web", "--to", "app/twin", "--port", "1"}, "could be ExternalEntity app/twin or Pod app/twin"},
		"no port":          {[]string{"--from", "vms/web", "--to", "vms/i-0db"}, "--port is missing"},
		"port name":        {[]string{"--from", "vms/web", "--to", "vms/i-0db", "--port", "http"}, `--port "http": want a number from 1 to 65535`},
		"port number":      {[]string{"--from", "vms/web", "--to", "vms/i-0db", "--port", "65536"}, `--port "65536"`},
		"protocol":         {[]string{"--from", "vms/web", "--to", "vms/i-0db", "--protocol", "GRE", "--port", "1"}, `--protocol "GRE": want TCP, UDP, SCTP, ICMP, ICMPv6 or IGMP`},
		"output":           {[]string{"--from", "vms/web", "--to", "vms/i-0db", "--port", "1", "-o", "xml"}, `--output "xml"`},
	} {
		r := nephele(t, "", append([]string{"explain", "-f", input}, c.args...)...)
		if r.code != ExitBadInput || !strings.Contains(r.err, c.want) || r.stdout != "" {
			t.Errorf("%s: %+v, want %q", name, r, c.want)
		}
	}
	broken := nephele(t, stage+"---\napiVersion: crd.antrea.io/v1beta1\nkind: Tier\nmetadata: {name: t}\nspec: {priority: 900}\n",
		"explain", "-f", "-", "--from", "vms/web", "--to", "vms/i-0db", "--port", "1")
	if broken.code != ExitBadInput || broken.stdout != "" || !strings.Contains(broken.err, "spec.priority") {
		t.Errorf("refused manifest: %+v", broken)
	}
}
