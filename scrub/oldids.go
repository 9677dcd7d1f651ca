package scrub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// oldIDRules has the rule for the IDs and the API servers that the machine had
// before the scrub.
func oldIDRules() []Rule {
	return []Rule{
		{
			ID: "old-ids-left", Phase: Inspect, Groups: []string{"identity"}, Verb: Report,
			Paths: oldIDPlaces, Owner: "anybody",
			Why:         "a file with the machine ID, the instance ID or the API server from before the scrub identifies the builder machine or its cluster",
			Regenerated: "its owner", Source: "machine-id(5)",
			search:    searchOldIDs(nil),
			searchFor: searchOldIDs,
		},
	}
}

// oldIDPlaces are the folders whose names are searched, in addition to homes.
var oldIDPlaces = []string{"/boot", "/efi", "/etc", "/var", "/opt", "/srv", "/usr/local", "/usr/lib", "/root", "/home"}

// MachineIDs returns the IDs of this machine: the machine ID, its copies, the
// names by which the journal and boot entries carry it, the instance's IDs that
// cloud-init has, and the API servers of its kubeconfigs. A scrub reads them first
// and gives them to its audit.
func MachineIDs(h *host.Host) ([]string, error) {
	var ids []string
	for _, name := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id", entryToken, "/var/lib/cloud/data/instance-id", "/var/lib/cloud/data/previous-instance-id"} {
		text, err := regularContent(h, name)
		if err != nil {
			return nil, err
		}
		if id := strings.ToLower(strings.TrimSpace(string(text))); isMachineID(id) || instanceUUID.MatchString(id) || ec2Instance.MatchString(id) {
			ids = append(ids, id)
		}
	}
	data, err := instanceData(h)
	if err != nil {
		return nil, err
	}
	ids = append(ids, data...)
	names, _, err := matching(h, []string{
		"/var/log/journal/*", "/boot/*", "/boot/efi/*", "/efi/*", "/boot/loader/entries/*.conf", "/boot/efi/loader/entries/*.conf", "/efi/loader/entries/*.conf",
	})
	if err != nil {
		return nil, fmt.Errorf("listing the IDs of this machine: %w", err)
	}
	for _, name := range names {
		if id, _, _ := strings.Cut(path.Base(name), "-"); isMachineID(id) {
			ids = append(ids, id)
		}
	}
	hosts, err := clusterHosts(h)
	if err != nil {
		return nil, err
	}
	ids = append(ids, hosts...)
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

var instanceUUID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

var macAddress = regexp.MustCompile(`^([0-9a-f]{2}:){5}[0-9a-f]{2}$`)

var awsAccount = regexp.MustCompile(`^\d{12}$`)

var ec2Instance = regexp.MustCompile(`^i-([0-9a-f]{17}|[0-9a-f]{8})$`)

// ofInstance match what identifies an EC2 instance, its account and its network
// interfaces in cloud-init's copy of the metadata.
var ofInstance = []*regexp.Regexp{
	regexp.MustCompile(`"(i-[0-9a-f]{8,17})"`), regexp.MustCompile(`"(eni-[0-9a-f]{8,17})"`),
	regexp.MustCompile(`"account-?[iI]d": ?"(\d{12})"`), regexp.MustCompile(`"owner-id": ?"(\d{12})"`),
	regexp.MustCompile(`"mac": ?"((?:[0-9a-f]{2}:){5}[0-9a-f]{2})"`),
}

// instanceData returns the IDs in cloud-init's copy of the instance's metadata, which
// only a running machine has.
func instanceData(h *host.Host) ([]string, error) {
	text, err := regularContent(h, "/run/cloud-init/instance-data.json")
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, re := range ofInstance {
		for _, m := range re.FindAllSubmatch(text, -1) {
			ids = append(ids, string(m[1]))
		}
	}
	return ids, nil
}

// idMost is how many bytes a file with an ID may have.
const idMost = 64 << 10

// regularContent reads a file with an ID, or nothing if a folder, a device or a
// large file is in its place, or a mount that is not of the machine. The rule of
// that file handles it.
func regularContent(h *host.Host, name string) ([]byte, error) {
	if m, err := h.Files.Foreign(name, "", true); err != nil || m != nil {
		return nil, err
	}
	st, err := h.Files.Stat(name)
	if leadsNowhere(err) || err == nil && (!st.Mode().IsRegular() || st.Size() > idMost) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return h.Content(name)
}

// searchOldIDs returns a search for IDs from before a scrub, and for those that
// the machine has now.
func searchOldIDs(before []string) func(context.Context, *host.Host, taken, *originals) ([]plan.Finding, error) {
	return func(ctx context.Context, h *host.Host, taken taken, _ *originals) ([]plan.Finding, error) {
		ids, err := MachineIDs(h)
		if err != nil {
			return nil, err
		}
		return oldIDsLeft(ctx, h, taken, append(ids, before...))
	}
}

// oldIDsLeft reports names anywhere, and contents in searchedForIDs, with one of
// the IDs.
func oldIDsLeft(ctx context.Context, h *host.Host, taken taken, ids []string) ([]plan.Finding, error) {
	slices.Sort(ids)
	ids = slices.Compact(ids)
	var patterns []pattern
	for _, id := range ids {
		kind := "the machine's id from before the scrub"
		if strings.ContainsAny(id, ".:") && !macAddress.MatchString(id) {
			kind = "the old cluster's API server"
		}
		patterns = append(patterns, pattern{kind: kind, hints: []string{id[:8]}, re: anyForm(id)})
	}
	homes, err := Homes(h)
	if err != nil {
		return nil, err
	}
	findings, err := namesWith(ctx, h, taken, append(slices.Clone(oldIDPlaces), homes...), append(slices.Clone(patterns), namesOfEC2))
	if err != nil {
		return findings, err
	}
	current, err := regularContent(h, "/etc/machine-id")
	if err != nil {
		return findings, err
	}
	if id := strings.TrimSpace(string(current)); id != "" { // the rule host-ids-left searches for it
		patterns = slices.DeleteFunc(patterns, func(p pattern) bool { return p.re().MatchString(id) })
	}
	if len(patterns) == 0 {
		return findings, nil
	}
	found, err := search{taken: taken, words: newIndex(patterns)}.in(ctx, h, searchedForIDs...)
	found = slices.DeleteFunc(found, func(f plan.Finding) bool {
		return idsOwn(f.Target) || taken.by(f.Target, plan.Restore, plan.Write) || about(findings, f.Target)
	})
	return append(findings, found...), err
}

// namesOfEC2 matches names of an instance, an interface and a host that is not
// known.
var namesOfEC2 = pattern{re: expression(`^i-[0-9a-f]{8}$|\b(i|eni)-[0-9a-f]{17}\b|\bip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}\b`)}

// namesWith reports files and folders whose names carry an ID and that no other
// rule removes or renames.
func namesWith(ctx context.Context, h *host.Host, taken taken, tops []string, ids []pattern) ([]plan.Finding, error) {
	var findings []plan.Finding
	var errs []error
	seen := map[string]bool{}
	for _, top := range tops {
		_, err := h.Files.Walk(ctx, top, path.Dir(top), func(e host.Entry, err error) error {
			switch {
			case err != nil:
				errs = append(errs, err)
				return nil
			case e.IsDir() && (kept(namesNotSearched, e.Path) || taken.inWalk(top, e.Path)) || seen[e.Path]:
				return skipFolder(e)
			case taken.inWalk(top, e.Path) || taken.by(e.Path, plan.Write):
				return nil
			}
			seen[e.Path] = true
			base := path.Base(e.Path)
			if slices.ContainsFunc(ids, func(p pattern) bool { return p.re().MatchString(base) }) {
				findings = append(findings, plan.Finding{Target: e.Path, Reason: "its name carries the builder machine's ID: rename or remove it"})
				return skipFolder(e)
			}
			return nil
		})
		if err != nil {
			errs = append(errs, err)
		}
	}
	return findings, errors.Join(errs...)
}

// namesNotSearched are folders of data whose names are digests or people's.
var namesNotSearched = []string{"/var/lib/containerd", "/var/lib/docker", "/var/lib/kubelet/pods", "/var/lib/containers"}

// skipFolder leaves a folder's contents out.
func skipFolder(e host.Entry) error {
	if e.IsDir() {
		return fs.SkipDir
	}
	return nil
}
