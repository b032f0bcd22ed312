// Package observe makes Grafana's dashboards, and holds the tests of them and of the alerts.
//
// It owns what is on the dashboards. It promises that the same code makes the same JSON. It is safe
// for concurrent use.
package observe

import (
	"encoding/json"
	"fmt"
)

// Dashboard is one page of panels.
type Dashboard struct {
	// UID is its name in addresses and files.
	UID, Title string
	Panels     []Panel
}

// Panel is one graph, of one line for each result of its queries.
type Panel struct {
	Title, About string
	// Unit is Grafana's name of a unit, such as s or percentunit.
	Unit    string
	Queries []Query
}

// Query is a PromQL expression and what its lines are called.
type Query struct{ Expr, Legend string }

// Dashboards returns the dashboards of the chart.
func Dashboards() []Dashboard {
	return []Dashboard{overview(), clouds(), policies(), agents(), flows()}
}

func overview() Dashboard {
	return Dashboard{"overview", "Nephele: overview", []Panel{
		{"Policies by phase", "Failed ones have a message in their status.", "short",
			[]Query{{"max by (kind, phase) (nephele_policies)", "{{kind}} {{phase}}"}}},
		{"Accounts that are not ready", "nephele status says why.", "short",
			[]Query{{`1 - max by (account) (nephele_account_condition{condition="Ready"})`, "{{account}}"}}},
		{"Age of the inventory", "How long ago a region was read as a whole.", "s",
			[]Query{{"max by (account, region) (nephele_inventory_age_seconds)", "{{account}} {{region}}"}}},
		{"From a change to its enforcement", "Until all enforcers have the policy in force.", "s", []Query{
			{"histogram_quantile(0.5, sum by (le) (rate(nephele_policy_convergence_seconds_bucket[30m])))", "half of the changes"},
			{"histogram_quantile(0.9, sum by (le) (rate(nephele_policy_convergence_seconds_bucket[30m])))", "nine of ten"},
		}},
		{"VMs by mode", "Only those in mode enforce are guarded.", "short", []Query{{"max by (account, mode) (nephele_realize_vms)", "{{account}} {{mode}}"}}},
		{"Quotas", "The fullest group, interface or region; 1 is full.", "percentunit",
			[]Query{{"max by (account, region, quota) (nephele_quota_fill)", "{{account}} {{region}} {{quota}}"}}},
		{"What cannot be realized", "Refused, with the reason in the statuses.", "short", []Query{{"max by (account) (nephele_realize_refusals)", "{{account}}"}}},
		{"Waits for a confirmation", "Interfaces whose change somebody has to confirm.", "short",
			[]Query{{"max by (account, change) (nephele_realize_braked_interfaces)", "{{account}} {{change}}"}}},
	}}
}

func clouds() Dashboard {
	return Dashboard{"clouds", "Nephele: clouds", []Panel{
		{"Operations", "By kind and result.", "ops",
			[]Query{{"sum by (account, kind, result) (rate(nephele_realize_operations_total[5m]))", "{{account}} {{kind}} {{result}}"}}},
		{"Rounds that failed", "By the class of the error.", "ops",
			[]Query{{`sum by (account, result) (rate(nephele_realize_rounds_total{result!="ok"}[5m]))`, "{{account}} {{result}}"}}},
		{"Time until all of a change is realized", "Nine of ten rounds with something to do.", "s",
			[]Query{{"histogram_quantile(0.9, sum by (account, le) (rate(nephele_realize_seconds_bucket[30m])))", "{{account}}"}}},
		{"Still to do", "Operations of the last plan.", "short", []Query{{"max by (account) (nephele_realize_pending_operations)", "{{account}}"}}},
		{"Drift", "Changes by others that were put right.", "ops", []Query{{"sum by (account) (rate(nephele_realize_drift_total[15m]))", "{{account}}"}}},
		{"Sole writer", "0 while another instance with the same cluster id writes.", "short",
			[]Query{{"min by (account) (nephele_realize_sole_writer)", "{{account}}"}}},
		{"Calls of clouds", "Every attempt, by result.", "reqps",
			[]Query{{"sum by (owner, region, result) (rate(nephele_cloud_calls_total[5m]))", "{{owner}} {{region}} {{result}}"}}},
		{"Calls that were held back", "Share of time, by our own pacing.", "percentunit",
			[]Query{{"sum by (owner, region, action) (rate(nephele_cloud_paced_seconds_total[5m]))", "{{owner}} {{region}} {{action}}"}}},
	}}
}

func policies() Dashboard {
	return Dashboard{"policies", "Nephele: computing and serving policies", []Panel{
		{"Time of a round", "Nine of ten.", "s", []Query{{"histogram_quantile(0.9, sum by (le) (rate(nephele_policy_round_seconds_bucket[5m])))", "round"}}},
		{"Changes", "What came in, and what came of it.", "ops", []Query{
			{"sum(rate(nephele_policy_inputs_total[5m]))", "objects"}, {"sum by (resource) (rate(nephele_policy_changes_total[5m]))", "computed {{resource}}"},
		}},
		{"Watches", "Of enforcers, by what they watch.", "short", []Query{{"sum by (resource) (nephele_api_watchers)", "{{resource}}"}}},
		{"Out of sync", "Keys that do not hear of policies.", "short", []Query{{"1 - min by (key) (nephele_enforcer_in_sync)", "{{key}}"}}},
		{"Refused requests", "Callers that may not, and too much of something.", "reqps", []Query{
			{"sum by (resource) (rate(nephele_api_refused_total[5m]))", "not allowed: {{resource}}"}, {"sum by (what) (rate(nephele_api_limited_total[5m]))", "too much: {{what}}"},
		}},
		{"Webhooks", "Answers by code.", "reqps", []Query{{"sum by (code) (rate(nephele_api_reviews_total[5m]))", "{{code}}"}}},
	}}
}

func agents() Dashboard {
	return Dashboard{"agents", "Nephele: agents on VMs and Nodes", []Panel{
		{"Agents by state", "Kept: without a server, what was received last is in force.", "short", []Query{{"sum by (state) (nephele_agent_state)", "{{state}}"}}},
		{"Without a server", "They hear of no change.", "short", []Query{{"nephele_agent_connected == 0", "{{instance}}"}}},
		{"Trouble", "nephele-agent status, on the host, has the text.", "short", []Query{{"sum by (with) (nephele_agent_trouble)", "{{with}}"}}},
		{"Policies that are not enforced", "By host; their statuses say why.", "short", []Query{{`sum by (instance) (nephele_agent_policies{enforced="false"}) > 0`, "{{instance}}"}}},
		{"From hearing of a change to the kernel", "Of all hosts together.", "s", []Query{
			{"histogram_quantile(0.5, sum by (le) (rate(nephele_agent_change_seconds_bucket[30m])))", "half of the changes"},
			{"histogram_quantile(0.99, sum by (le) (rate(nephele_agent_change_seconds_bucket[30m])))", "99 of 100"},
		}},
		{"In the kernel", "The largest host.", "short", []Query{{"max(nephele_agent_rules)", "rules"}, {"max(nephele_agent_elements)", "elements"}}},
		{"Changes of others", "Tables that were put right, and firewalls besides.", "short", []Query{
			{"sum(increase(nephele_agent_repairs_total[1h]))", "repairs"}, {"sum(nephele_agent_foreign_filters)", "filters of others"},
		}},
		{"Connections that changes ended", "A burst follows a policy that was tightened.", "ops", []Query{{"sum(rate(nephele_agent_connections_cut_total[5m]))", "connections"}}},
		{"Pods", "Those that evade netfilter are not enforceable.", "short", []Query{{"sum by (enforceable) (nephele_agent_pods)", "enforceable: {{enforceable}}"}}},
		{"Log of policies", "Lines, and packets that came too fast.", "ops", []Query{
			{"sum(rate(nephele_agent_log_lines_total[5m]))", "lines"}, {"sum(rate(nephele_agent_log_lost_total[5m]))", "lost"},
		}},
	}}
}

func flows() Dashboard {
	return Dashboard{"flows", "Nephele: flows of hosts and Nodes", []Panel{
		{"Connections by verdict", "Allow: let pass. Drop and Reject: packets that were denied, of which agents tell at most 100 a second for each rule.", "cps",
			[]Query{{"sum by (verdict) (rate(nephele_flows_connections_total[5m]))", "{{verdict}}"}}},
		{"Traffic", "What connections carried both ways, told at their end, where hosts count it.", "Bps",
			[]Query{{"sum(rate(nephele_flows_bytes_total[5m]))", "carried"}}},
		{"Not as rules say", "Rules, each at one host or Node; nephele flows --differs lists the connections.", "short",
			[]Query{{"max by (differs) (nephele_flows_differing)", "{{differs}}"}}},
		{"Hosts and Nodes that report", "Within the last hour.", "short", []Query{{"max(nephele_flows_enforcers)", "reporting"}}},
		{"What is held", "Of the last hour in memory, and in files.", "bytes", []Query{
			{"max(nephele_flows_held_bytes)", "memory"}, {"max(nephele_flows_disk_bytes)", "files"},
		}},
		{"What is missing", "By why it is.", "cps", []Query{{"sum by (what) (rate(nephele_flows_lost_total[5m]))", "{{what}}"}}},
		{"Exported", "Entries that other systems took, or refused.", "cps",
			[]Query{{"sum by (to, result) (rate(nephele_flows_exported_total[5m]))", "{{to}} {{result}}"}}},
		{"Recorded by agents", "And what they could not tell.", "cps", []Query{
			{"sum by (verdict) (rate(nephele_agent_flows_total[5m]))", "{{verdict}}"}, {"sum by (what) (rate(nephele_agent_flows_lost_total[5m]))", "not told: {{what}}"},
		}},
	}}
}

// Sizes of a panel in Grafana's grid, which is 24 wide.
const panelWidth, panelHeight = 12, 8

// JSON is the dashboard as Grafana reads it.
func (d Dashboard) JSON() ([]byte, error) {
	type object = map[string]any
	source := object{"type": "prometheus", "uid": "${datasource}"}
	var panels []object
	for i, p := range d.Panels {
		var targets []object
		for n, q := range p.Queries {
			targets = append(targets, object{"refId": string(rune('A' + n)), "datasource": source, "expr": q.Expr, "legendFormat": q.Legend})
		}
		panels = append(panels, object{
			"id": i + 1, "type": "timeseries", "title": p.Title, "description": p.About, "datasource": source, "targets": targets,
			"gridPos":     object{"x": i % 2 * panelWidth, "y": i / 2 * panelHeight, "w": panelWidth, "h": panelHeight},
			"fieldConfig": object{"defaults": object{"unit": p.Unit, "min": 0}, "overrides": []object{}},
		})
	}
	raw, err := json.MarshalIndent(object{
		"uid": "nephele-" + d.UID, "title": d.Title, "tags": []string{"nephele"}, "schemaVersion": 39, "editable": true, "refresh": "1m",
		"time": object{"from": "now-6h", "to": "now"}, "panels": panels,
		"templating": object{"list": []object{{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("dashboard %s: %w", d.UID, err)
	}
	return append(raw, '\n'), nil
}
