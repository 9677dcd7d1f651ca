//go:build e2e && full

package join_test

import (
	"regexp"
	"strings"
)

// Results of an instance.
const (
	joins    = "joins"
	degrades = "degrades"
	fails    = "does not join"
)

// trial is one instance that was started from an image with one leftover.
type trial struct {
	// Rule is the scrub rule for the leftover. Case names the exact leftover if a
	// rule has several.
	Rule string `json:"rule"`
	Case string `json:"case,omitempty"`
	// Paths are the leftover's paths.
	Paths []string `json:"paths"`
	// FirstBoot is how the instance got its cluster.
	FirstBoot string `json:"firstBoot"`
	Result    string `json:"result"`
	// Message is the message of the kubelet, containerd or the API server.
	Message string `json:"message,omitempty"`
	// Leaks are files of the running instance that still name the old cluster.
	Leaks []string `json:"leaks,omitempty"`
}

// fatal are the messages of a kubelet that waiting does not help, the most
// specific first.
var fatal = []*regexp.Regexp{
	regexp.MustCompile(`"Server rejected event \(will not retry!\)" err="Unauthorized"`),
	regexp.MustCompile(`configured policy .{1,20} differs from state checkpoint policy [^,]*`),
	regexp.MustCompile(`current set of available CPUs .* doesn't match[^,]*`),
	regexp.MustCompile(`checkpoint is corrupted`),
	regexp.MustCompile(`could not restore state from checkpoint: [^,"]*`),
	regexp.MustCompile(`unexpected end of JSON input`),
	regexp.MustCompile(`unable to load client CA file[^"]*`),
	regexp.MustCompile(`certificate signed by unknown authority`),
	regexp.MustCompile(`lookup MASTER_ENDPOINT[^"\\]*`),
	regexp.MustCompile(`can only access [^"\\]*|only its own Node object|is not allowed to modify node [^"\\]*|no relationship found [^"\\]*`),
	regexp.MustCompile(`is forbidden: [^\n]{1,160}`),
	regexp.MustCompile(`Unauthorized`),
	regexp.MustCompile(`sed: can't read [^\n]*|cp: cannot stat [^\n]*`),
	regexp.MustCompile(`failed to run Kubelet: [^"]*|failed to validate kubelet configuration[^"]*|failed to load kubelet config file[^"]*`),
	regexp.MustCompile(`(?m)^F\d+ .*$|"Failed to [^"]*" err="[^"]*"`),
}

// other are messages that a healthy node may also log for a while.
var other = []*regexp.Regexp{
	regexp.MustCompile(`no IP addresses available in range set[^"\\]*`),
	regexp.MustCompile(`failed to find plugin [^\\]*\\?"[a-z]+`),
	regexp.MustCompile(`cni plugin not initialized`),
}

func find(patterns []*regexp.Regexp, journal string) string {
	for _, pattern := range patterns {
		if found := pattern.FindString(journal); found != "" {
			found, _, _ = strings.Cut(found, "\n")
			found = strings.TrimRight(strings.ReplaceAll(found, `\`, ""), " ")
			if strings.Count(found, `"`)%2 == 1 {
				found += `"`
			}
			return found
		}
	}
	return ""
}

// hopeless finds the message in a kubelet's journal for which it does not become
// ready; nothing while there is none.
func hopeless(journal string) string { return find(fatal, journal) }

// telling returns the most specific message in a journal; the last line if no
// message is known.
func telling(journal string) string {
	if found := find(append(fatal[:len(fatal):len(fatal)], other...), journal); found != "" {
		return found
	}
	lines := strings.Split(strings.TrimSpace(journal), "\n")
	return lines[len(lines)-1]
}
