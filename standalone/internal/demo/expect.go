package demo

import (
	"fmt"
	"strings"
)

// The places of the story, in the order of the tables below.
const (
	cvp      = "CVP Server Test"
	border01 = "border_01"
	border02 = "border_02"
	core01   = "core_01"
	// office is in the range from which the account's own security group allows ping; internet
	// represents everybody else.
	office   = "38.140.26.4"
	internet = "203.0.113.7"
)

// destinations are the columns of the tables: all places but the office.
func destinations() []string { return []string{cvp, border01, border02, core01, internet} }

// Which endpoint reaches which at each point of the story. These tables are the story's own: they
// were written down from the account's security group and the text of the policies, and are not
// computed by anything.
const (
	// The one security group that all VMs share allows everything from 192.168.0.0/16, ssh from
	// anywhere, ping from the office's network, and everything out.
	expectBefore = `
		CVP Server Test | ---- shtp shtp shtp shtp
		border_01       | shtp ---- shtp shtp shtp
		border_02       | shtp shtp ---- shtp shtp
		core_01         | shtp shtp shtp ---- shtp
		38.140.26.4     | s..p s..p s..p s..p ----
		203.0.113.7     | s... s... s... s... ----`

	// No ssh from outside to any VM. Switches: management from CVP, ping from each other, nothing
	// else in. CVP and everything that leaves a VM: as before.
	expectGuarded = `
		CVP Server Test | ---- sht. sht. sht. shtp
		border_01       | shtp ---- ...p ...p shtp
		border_02       | shtp ...p ---- ...p shtp
		core_01         | shtp ...p ...p ---- shtp
		38.140.26.4     | ...p .... .... .... ----
		203.0.113.7     | .... .... .... .... ----`

	// core_01 is no switch any more: it manages the other two, does not ping them, and is reached
	// as before but for ssh from outside.
	expectMoved = `
		CVP Server Test | ---- sht. sht. shtp shtp
		border_01       | shtp ---- ...p shtp shtp
		border_02       | shtp ...p ---- shtp shtp
		core_01         | shtp sht. sht. ---- shtp
		38.140.26.4     | ...p .... .... ...p ----
		203.0.113.7     | .... .... .... .... ----`
)

// Which machines reach the databases, by the groups of both clouds.
const (
	// The group of the databases admits postgres from the VPC and from Pods, ssh from the VPC, and
	// everything from its own network.
	expectDataBefore = `
		CVP Server Test | ds. ds.
		border_01       | ds. ds.
		border_02       | ds. ds.
		core_01         | ds. ds.
		Pod reports     | d.. d..
		db-1            | --- dsp
		db-2            | dsp ---
		203.0.113.7     | ... ...`

	// No ssh from outside of 192.168.0.0/16: one database to the other.
	expectDataImported = `
		CVP Server Test | ds. ds.
		border_01       | ds. ds.
		border_02       | ds. ds.
		core_01         | ds. ds.
		Pod reports     | d.. d..
		db-1            | --- d.p
		db-2            | d.p ---
		203.0.113.7     | ... ...`

	// The web tier, the Pod and each other, on the port of the databases only.
	expectDataGuarded = `
		CVP Server Test | d.. d..
		border_01       | ... ...
		border_02       | ... ...
		core_01         | ... ...
		Pod reports     | d.. d..
		db-1            | --- d..
		db-2            | d.. ---
		203.0.113.7     | ... ...`
)

// dataTable takes a table about the databases apart.
func dataTable(text string) expectation { return tableOf(text, len(databases())) }

// expectation is a table, taken apart.
type expectation struct {
	from  []string
	cells [][]string
}

// table takes a table apart. It panics on one that is not a table: they are all in this file.
func table(text string) expectation { return tableOf(text, len(destinations())) }

func tableOf(text string, columns int) expectation {
	var e expectation
	for line := range strings.Lines(strings.TrimSpace(text)) {
		name, rest, ok := strings.Cut(line, "|")
		cells := strings.Fields(rest)
		if !ok || len(cells) != columns {
			panic(fmt.Sprintf("the line %q of a table does not have a name and %d cells", line, columns))
		}
		e.from = append(e.from, strings.TrimSpace(name))
		e.cells = append(e.cells, cells)
	}
	return e
}

// The policies of the story, as the status of a VM names them.
const (
	policyNoSSH    = "no-ssh-from-outside"
	policySwitches = "switches"
)

// policiesOn says which policies must apply to which VM while the policies are in force; moved:
// after core_01 has changed its role.
func policiesOn(moved bool) map[string][]string {
	both, one := []string{policyNoSSH, policySwitches}, []string{policyNoSSH}
	want := map[string][]string{cvp: one, border01: both, border02: both, core01: both}
	if moved {
		want[core01] = one
	}
	return want
}
