package join

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// partition is where a captured disk's file system starts, in bytes.
const partition = 1 << 20

// Disks mounts captured disks, each time in a mount namespace that ends with the
// commands that look at them.
type Disks struct {
	// Eksnode is the command's path.
	Eksnode string
	// Folder takes mount points and lists.
	Folder string
}

// shell runs a script with the disk dirty mounted read-only at $D, as it is, and
// the disk changed writable at $R, as a machine would mount it; either may be
// empty.
func (d Disks) shell(ctx context.Context, dirty, changed, script string, args ...string) ([]byte, error) {
	work, err := os.MkdirTemp(d.Folder, "mounts-")
	if err != nil {
		return nil, fmt.Errorf("mounting disks: %w", err)
	}
	defer os.RemoveAll(work)
	const mount = `set -eu
mount --make-rprivate /
mkdir "$WORK/d" "$WORK/r"
[ -z "$DIRTY" ] || mount -o "ro,noload,loop,offset=$OFFSET" "$DIRTY" "$WORK/d"
[ -z "$CHANGED" ] || mount -o "loop,offset=$OFFSET" "$CHANGED" "$WORK/r"
trap '[ -z "$DIRTY" ] || umount "$WORK/d"; [ -z "$CHANGED" ] || umount "$WORK/r"' EXIT
D=$WORK/d R=$WORK/r
`
	cmd := exec.CommandContext(ctx, "unshare", append([]string{"--mount", "sh", "-c", mount + script, "sh"}, args...)...)
	cmd.Env = append(os.Environ(), "WORK="+work, "DIRTY="+dirty, "CHANGED="+changed, "EKSNODE="+d.Eksnode, fmt.Sprintf("OFFSET=%d", partition))
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return out, err
}

// Find lists what a scrub of the disk would touch, by rule.
func (d Disks) Find(ctx context.Context, disk string) (map[string][]string, error) {
	// It exits with 1 where the scrub has findings.
	out, err := d.shell(ctx, disk, "", `"$EKSNODE" scrub --dry-run --root "$D" --output json || [ $? = 1 ]`)
	if err != nil {
		return nil, fmt.Errorf("planning a scrub of %s: %w", disk, err)
	}
	var report plan.Report
	if err := json.Unmarshal(out, &report); err != nil {
		return nil, fmt.Errorf("reading the plan for %s: %w", disk, err)
	}
	found := map[string][]string{}
	for _, item := range report.Plan {
		for _, action := range item.Actions {
			found[item.Item] = append(found[item.Item], action.Target)
		}
		for _, finding := range item.Findings {
			found[item.Item] = append(found[item.Item], finding.Target)
		}
	}
	return found, nil
}

// Copy copies a disk and leaves the holes in it.
func Copy(ctx context.Context, from, to string) error {
	out, err := exec.CommandContext(ctx, "cp", "--sparse=always", "--reflink=auto", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copying a disk: %w: %s", err, out)
	}
	return nil
}

// Plant puts paths of the dirty disk as they are there onto the other; a path
// that the dirty one does not have goes. The script then may do more below $R.
func (d Disks) Plant(ctx context.Context, dirty, changed string, paths []string, script string) error {
	for _, p := range paths {
		if !filepath.IsAbs(p) || filepath.Clean(p) == "/" || strings.Contains(p, "..") {
			return fmt.Errorf("planting %q: it is no path of a leftover", p)
		}
	}
	const plant = `for p; do
  rm -rf "$R$p"
  if [ -e "$D$p" ] || [ -L "$D$p" ]; then
    mkdir -p "$R${p%/*}"
    cp -a "$D$p" "$R$p"
  fi
done
`
	if _, err := d.shell(ctx, dirty, changed, plant+script, paths...); err != nil {
		return fmt.Errorf("planting %q: %w", paths, err)
	}
	return nil
}

// Audit audits a disk, and tells whether it passed and what was said.
func (d Disks) Audit(ctx context.Context, disk string) (clean bool, said string, err error) {
	out, err := d.shell(ctx, "", disk, `"$EKSNODE" audit --root "$R" 2>&1 && echo CLEAN || [ $? = 1 ]`)
	if err != nil {
		return false, "", fmt.Errorf("auditing %s: %w", disk, err)
	}
	said, clean = strings.CutSuffix(string(out), "CLEAN\n")
	return clean, said, nil
}

// Scrub scrubs a disk.
func (d Disks) Scrub(ctx context.Context, disk string) error {
	if _, err := d.shell(ctx, "", disk, `"$EKSNODE" scrub --yes --root "$R" 2>&1`); err != nil {
		return fmt.Errorf("scrubbing %s: %w", disk, err)
	}
	return nil
}

// Search looks for a word in a captured disk: it returns the files that hold it,
// and how many of the disk's blocks do, by whose they are: an inode's, of which
// 8 is the file system's journal, or "free".
func (d Disks) Search(ctx context.Context, disk, word string) (files []string, owners map[string]int, err error) {
	out, err := d.shell(ctx, disk, "", `grep -rlFs "$1" "$D" || [ $? -le 2 ]`, word)
	if err != nil {
		return nil, nil, fmt.Errorf("searching the files of %s: %w", disk, err)
	}
	files = strings.Fields(string(out))
	const script = `grep -obaF "$1" "$2" | cut -d: -f1 | while read -r at; do echo $(((at - OFFSET) / 4096)); done | sort -un > "$3" || :
[ -s "$3" ] || exit 0
debugfs -R "icheck $(tr '\n' ' ' < "$3")" "$2?offset=$OFFSET" 2> /dev/null | tail -n +2`
	list := filepath.Join(d.Folder, "blocks")
	defer os.Remove(list)
	cmd := exec.CommandContext(ctx, "sh", "-uc", script, "sh", word, disk, list)
	cmd.Env = append(os.Environ(), fmt.Sprintf("OFFSET=%d", partition))
	if out, err = cmd.Output(); err != nil {
		return nil, nil, fmt.Errorf("searching the blocks of %s: %w", disk, err)
	}
	owners = map[string]int{}
	for line := range strings.Lines(string(out)) {
		_, owner, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(owner, "<") {
			owner = "free"
		}
		owners[owner]++
	}
	return files, owners, nil
}
