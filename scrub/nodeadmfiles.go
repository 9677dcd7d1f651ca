package scrub

import (
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
)

// The files that Amazon's nodeadm renders have no mark. They are recognized by
// settings that only nodeadm combines, on machines that have nodeadm: each first
// boot writes the files again.

// baseRuntimeSpec matches the setting of containerd's runtime that names
// nodeadm's file of limits, in all forms that nodeadm and containerd print.
var baseRuntimeSpec = expression(`(?m)^\s*base_runtime_spec\s*=\s*["']/etc/containerd/base-runtime-spec\.json["']`)

// isNodeadmsContainerd reports whether nodeadm rendered a configuration of
// containerd. The scrub removes the file of limits that the configuration needs.
func isNodeadmsContainerd(h *host.Host, text []byte) (bool, error) {
	if !baseRuntimeSpec().Match(text) {
		return false, nil
	}
	return hasNodeadm(h)
}

// sociTables are the tables of the configuration that nodeadm renders for SOCI's
// snapshotter.
var sociTables = []string{
	"[content_store]", "[cri_keychain]", "[pull_modes.parallel_pull_unpack]", `[pull_modes.parallel_pull_unpack.decompress_streams."gzip"]`,
}

// isNodeadmsSOCI reports whether nodeadm rendered a configuration of SOCI's
// snapshotter: it has nodeadm's tables and the socket of containerd, and no
// comment.
func isNodeadmsSOCI(h *host.Host, text []byte) (bool, error) {
	lines := configLines(text)
	var tables []string
	for _, line := range lines {
		if strings.HasPrefix(line, "[") {
			tables = append(tables, line)
		}
	}
	for _, needed := range []string{"[cri_keychain]", "[pull_modes.parallel_pull_unpack]", `image_service_path = "/run/containerd/containerd.sock"`} {
		if !slices.Contains(lines, needed) {
			return false, nil
		}
	}
	if strings.Contains(string(text), "#") || slices.ContainsFunc(tables, func(t string) bool { return !slices.Contains(sociTables, t) }) {
		return false, nil
	}
	return hasNodeadm(h)
}

// hasNodeadm reports whether the machine has nodeadm.
func hasNodeadm(h *host.Host) (bool, error) {
	return nodePart{name: "nodeadm", programs: []string{"nodeadm"}}.there(h)
}
