package diagnose

import (
	"slices"
	"strings"
	"sync"
)

// cell gives failures of a kind of target their cause. An empty target is any.
type cell struct {
	target, cause string
	classes       []Class
}

// ofMachine are the classes of failures that have one cause, whatever program writes the
// line.
var ofMachine = []Class{Full, Limit, Damaged, Memory, Taken, Foreign}

var (
	unanswered = []Class{TimedOut, NoRoute, Cut, Late}
	unreached  = append([]Class{Refused}, unanswered...)
	denials    = []Class{Denied, Forbidden} // a file is denied, and a request either
)

// matrix has the causes of failures that no line of a rule names. The first cell that
// fits counts.
var matrix = []cell{
	{"inotify", "limits", []Class{Full, Limit}},
	{"", "limits", []Class{Limit}},
	{"", "disk-full", []Class{Full}},
	{"", "disk-errors", []Class{Damaged}},
	{"", "memory", []Class{Memory}},
	{"", "port-in-use", []Class{Taken}},
	{"", "architecture", []Class{Foreign}},
	{"proxy", "proxy", unreached},
	{"name", "dns", append([]Class{Unresolved}, unreached...)},
	{"", "dns", []Class{Unresolved}},
	{"instance metadata service", "metadata", slices.Concat(denials, unreached)},
	{"pod identity agent", "pod-identity", unreached},
	{"registry", "registry-unreachable", append([]Class{Broken}, unreached...)},
	{"registry", "registry", denials},
	{"registry", "registry-ca", []Class{Untrusted}},
	{"registry", "no-image", []Class{Missing}},
	{"AWS API", "aws-api", unreached},
	{"AWS API", "permissions", denials},
	{"kubelet", "kubelet-port", unreached},
	{"kubelet", "serving-certificate", []Class{Untrusted, Unwelcome}},
	{"Service address", "kube-proxy", unreached},
	{"API server", "blocked", unanswered},
	{"API server", "refused", []Class{Refused}},
	{"API server", "unauthorized", denials},
	{"API server", "other-ca", []Class{Untrusted}},
	{"kernel module", "kernel-modules", []Class{Missing}},
	{"cgroup", "cgroups", []Class{Missing}},
	{"network plugin", "cni-config", []Class{Malformed}},
	{"flag", "kubelet-flags", []Class{Malformed}},
	{"package", "user-data-script", []Class{Missing}},
	{"object", "denied", denials},
	{"", "throttled", []Class{Busy}},
	{"", "tls", []Class{Untrusted, Unwelcome}},
	{"", "syntax", []Class{Malformed}},
	{"file", "file", []Class{Missing, Denied}},
	{"socket", "file", []Class{Denied}},
	{"network plugin", "file", []Class{Denied}},
	{"kernel setting", "file", []Class{Missing, Denied}},
	{"socket", "containerd", unreached},
	{"", "denied", denials},
	{"address", "unreachable", unreached},
	{"", "unreachable", []Class{Refused, TimedOut, NoRoute, Cut}},
}

// causes are the places of the matrix' causes in Rules.
var causes = sync.OnceValue(func() (places []int) {
	rules := Rules()
	for _, c := range matrix {
		places = append(places, slices.IndexFunc(rules, func(r Rule) bool { return r.ID == c.cause }))
	}
	return places
})

// causeOf is the place in Rules of a failure's cause, or -1.
func (f Fact) causeOf() int {
	if slices.Contains(unreached, f.Class) && slices.ContainsFunc([]string{"127.0.0.1", "localhost", "[::1]"},
		func(local string) bool { return strings.HasPrefix(f.Value, local) }) {
		return -1 // a program of this machine, which has a failure of its own
	}
	for i, c := range matrix {
		if (c.target == "" || c.target == f.Target) && slices.Contains(c.classes, f.Class) {
			return causes()[i]
		}
	}
	return -1
}
