package scrub

import (
	"bytes"
	"context"
	"path"
	"regexp"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

func bootEntryRules() []Rule {
	return []Rule{
		{
			ID: "boot-entries", Phase: Identity, Groups: []string{"identity"}, Verb: plan.Write,
			Paths: []string{
				entryToken, "/boot/loader/entries/*.conf", "/boot/efi/loader/entries/*.conf", "/efi/loader/entries/*.conf",
				"/boot/EFI/Linux/*.efi", "/boot/efi/EFI/Linux/*.efi", "/efi/EFI/Linux/*.efi", "/boot/*", "/boot/efi/*", "/efi/*",
				"/boot/grub*/grubenv", "/boot/efi/EFI/*/grubenv", "/boot/loader/loader.conf", "/boot/efi/loader/loader.conf", "/efi/loader/loader.conf",
			}, Owner: "kernel-install, bootctl",
			Why:         "names of boot entries, rescue kernels and folders carry the builder machine's ID; entries get the neutral ID " + neutralID + ", and a folder with kernels is reported",
			Regenerated: "kernel-install, with the next kernel", Source: "kernel-install(8), the Boot Loader Specification",
			Find: bootEntries,
		},
	}
}

// entryToken is the file with the name that kernel-install gives to entries.
const entryToken = "/etc/kernel/entry-token"

// neutralID replaces a machine ID in names of boot entries. Images of osbuild
// have entries with this ID too.
const neutralID = "ffffffffffffffffffffffffffffffff"

var (
	machineID   = regexp.MustCompile(`^[0-9a-f]{32}$`)
	entryName   = regexp.MustCompile(`^([0-9a-f]{32})(-.+)$`)
	machineLine = regexp.MustCompile(`(?m)^machine-id[ \t].*\n?`)
	inFolder    = regexp.MustCompile(`/[0-9a-f]{32}/`)
)

func isMachineID(text string) bool {
	return machineID.MatchString(text) && strings.Trim(text, text[:1]) != ""
}

// bootEntries plans neutral names for boot entries, and the removal of empty
// folders with the name of a machine ID. A folder with kernels is a finding,
// because the machine boots from these kernels.
func bootEntries(_ context.Context, h *host.Host) (plan.Answer, error) {
	var answer plan.Answer
	kernels, err := bootFoldersOfIDs(h, &answer)
	if err != nil {
		return plan.Answer{}, err
	}
	names, foreign, err := matching(h, bootEntryRules()[0].Paths)
	if err != nil {
		return plan.Answer{}, err
	}
	for _, name := range names {
		if err := bootFile(h, name, kernels, &answer); err != nil {
			return plan.Answer{}, err
		}
	}
	answer.Findings = append(answer.Findings, foreignFindings(h, foreign)...)
	return answer, nil
}

// bootFoldersOfIDs plans the removal of empty folders, and returns the IDs whose
// folders have files.
func bootFoldersOfIDs(h *host.Host, answer *plan.Answer) (map[string]bool, error) {
	kernels := map[string]bool{}
	names, _, err := matching(h, []string{"/boot/*", "/boot/efi/*", "/efi/*"})
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		st, err := h.Files.Lstat(name)
		if isMissing(err) || err == nil && (!st.IsDir() || !isMachineID(path.Base(name))) {
			continue
		}
		if err != nil {
			return nil, err
		}
		m, err := h.Files.Measure(name, true)
		if err != nil {
			return nil, err
		}
		if m.Entries == 0 {
			answer.Act(removeAction(h, name, "an empty folder with the builder machine's ID as its name"))
			continue
		}
		kernels[path.Base(name)] = true
		answer.Find(name, "the machine boots from a folder with the builder machine's ID as its name: write another name, such as the distribution's ID, into "+entryToken+", run kernel-install add-all, and remove the folder")
	}
	return kernels, nil
}

func bootFile(h *host.Host, name string, kernels map[string]bool, answer *plan.Answer) error {
	st, err := h.Files.Stat(name)
	if leadsNowhere(err) || err == nil && !st.Mode().IsRegular() {
		return nil
	}
	if err != nil {
		return err
	}
	base := path.Base(name)
	switch m := entryName.FindStringSubmatch(base); {
	case name == entryToken:
		return planEntryToken(h, kernels, answer)
	case base == "grubenv" || base == "loader.conf":
		return planDefaultEntry(h, name, kernels, answer)
	case m == nil || !isMachineID(m[1]):
	case path.Ext(base) == ".efi":
		answer.Act(plan.Action{Verb: plan.Write, Target: name, Reason: "its name carries the builder machine's ID",
			Do: func(context.Context, plan.Progress) error {
				return h.Files.Rename(name, path.Join(path.Dir(name), neutralID+m[2]))
			}})
	case path.Ext(base) == ".conf" && path.Base(path.Dir(name)) == "entries":
		return planEntry(h, name, m[1], answer)
	}
	return nil
}

func planEntryToken(h *host.Host, kernels map[string]bool, answer *plan.Answer) error {
	text, err := h.Content(entryToken)
	id := strings.TrimSpace(string(text))
	if err != nil || !isMachineID(id) || kernels[id] {
		return err
	}
	answer.Act(removeAction(h, entryToken, "the builder machine's ID; kernel-install would name every node's entries by it"))
	return nil
}

// planDefaultEntry plans new names in GRUB's environment, whose size stays, and
// in systemd-boot's configuration.
func planDefaultEntry(h *host.Host, name string, kernels map[string]bool, answer *plan.Answer) error {
	text, err := h.Content(name)
	if err != nil {
		return err
	}
	changed := defaultEntry().ReplaceAllFunc(text, func(found []byte) []byte {
		at := len(found) - 32
		if id := string(found[at:]); !isMachineID(id) || kernels[id] {
			return found
		}
		return append(bytes.Clone(found[:at]), neutralID...)
	})
	if bytes.Equal(changed, text) {
		return nil
	}
	return rewrite(h, name, changed, "names the default entry by the builder machine's ID", answer)
}

var defaultEntry = expression(`(?m)^(saved_entry=|next_entry=|default[ \t]+)[0-9a-f]{32}`)

func rewrite(h *host.Host, name string, text []byte, why string, answer *plan.Answer) error {
	attr, err := h.Files.Attributes(name)
	if err != nil {
		return err
	}
	answer.Act(plan.Action{Verb: plan.Write, Target: name, Reason: why,
		Do: func(context.Context, plan.Progress) error { return h.Files.WriteFile(name, text, attr) }})
	return nil
}

// planEntry plans another name for a boot entry, and for the rescue kernel that
// the entry starts. An entry of a kernel in a folder stays with the folder.
func planEntry(h *host.Host, name, id string, answer *plan.Answer) error {
	text, err := h.Content(name)
	if err != nil {
		return err
	}
	if inFolder.Match(text) {
		return nil
	}
	attr, err := h.Files.Attributes(name)
	if err != nil {
		return err
	}
	entry := bytes.ReplaceAll(machineLine.ReplaceAll(text, nil), []byte(id), []byte(neutralID))
	answer.Act(plan.Action{Verb: plan.Write, Target: name, Reason: "its name carries the builder machine's ID",
		Do: func(context.Context, plan.Progress) error {
			if err := renameRescue(h, path.Join(path.Dir(name), "../.."), id, text); err != nil {
				return err
			}
			if err := h.Files.WriteFile(path.Join(path.Dir(name), neutralID+path.Base(name)[32:]), entry, attr); err != nil {
				return err
			}
			_, err := h.Files.RemoveTree(name)
			return err
		}})
	return nil
}

func renameRescue(h *host.Host, top, id string, entry []byte) error {
	for _, name := range []string{"vmlinuz-0-rescue-" + id, "initramfs-0-rescue-" + id + ".img"} {
		if !bytes.Contains(entry, []byte(name)) {
			continue
		}
		from := path.Join(top, name)
		if there, err := h.Exists(from); err != nil || !there {
			if err != nil {
				return err
			}
			continue
		}
		if err := h.Files.Rename(from, strings.Replace(from, id, neutralID, 1)); err != nil {
			return err
		}
	}
	return nil
}
