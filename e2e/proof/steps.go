//go:build linux

package main

import (
	_ "embed"

	"sigs.k8s.io/yaml"
)

// tables are the steps of the proof and the kinds of resources of its teardown.
type tables struct {
	Prelude, Launching string
	Steps              []step
	Kinds              []kind
}

// step is a row of the report. Its script is what runs, and what a person runs by hand.
type step struct {
	Name, Does string
	Needs      []string
	// Launches puts the table's launching before the script.
	Launches bool
	// Minutes, Hourly and Once are the estimate: Hourly is paid from the step's start until
	// the end of the run, Once is paid once. Both are in US dollars.
	Minutes      int
	Hourly, Once float64
	// Actions are the permissions that the script's commands need in addition to those of
	// their own names and of `eksnode … --policy`.
	Actions []string
	// Asks is a variable of make that the step needs: without a value, the step is left out.
	Asks string
	// Template is a folder with a template of Packer, from -repository. Its policy.json has
	// the permissions that Packer needs.
	Template string
	// IPv6 is what the step does for IPV6=1, and IPv6Actions are further permissions for that.
	IPv6        string
	IPv6Actions []string
	Script      string
}

// kind is a kind of resource that a run can leave. List prints what is left, one word each.
// Delete removes $id, which is one of them.
type kind struct {
	Name string
	// Brief resources do not outlive their step. Twice says that both regions have them.
	Brief, Twice bool
	List, Delete string
}

//go:embed proof.yaml
var tablesFile []byte

var table = readTables()

var prelude, steps, kinds = table.Prelude, table.Steps, table.Kinds

func readTables() (t tables) {
	if err := yaml.UnmarshalStrict(tablesFile, &t); err != nil {
		panic(err) // the file is part of the program
	}
	for i := range t.Steps {
		if t.Steps[i].Launches {
			t.Steps[i].Script = t.Launching + t.Steps[i].Script
		}
	}
	return t
}
