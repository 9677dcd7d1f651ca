package distros

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/show"
	"github.com/eksnode/packer-plugin-eksnode/internal/text/surface"
	"github.com/eksnode/packer-plugin-eksnode/scrub"
	"github.com/eksnode/packer-plugin-eksnode/scrub/packages"
)

// pacmanManager is the package manager of Arch Linux.
type pacmanManager struct {
	manager
	holdsInConf
}

// Pacman is the package manager of Arch Linux.
func Pacman() PackageManager { return newPacman() }

func newPacman() pacmanManager {
	const keys = "/etc/pacman.d/gnupg/"
	line := func(verb string, more ...string) []string {
		return append([]string{"pacman", verb, "--noconfirm", "--noprogressbar"}, more...)
	}
	return pacmanManager{manager{
		name: "pacman", refreshing: "pacman -Syu", refresh: [][]string{line("-Syu")},
		install: line("-S", "--needed", "--"), remove: line("-Rc", "--"),
		tool:    tool{words: 2, symptoms: "pacman", locked: pacmanLocked, patience: lockPatience},
		kernels: pacmanKernels(), repositories: pacmanRepositories(),
		rules: []scrub.Rule{
			caches("pacman", "/var/cache/pacman/pkg/*", "/var/lib/pacman/sync/*", "/var/lib/pacman/db.lck"),
			identity("pacman-key", "pacman-key",
				"every node would have the private key with which its package manager trusts other keys",
				`"pacman-key --init"; packages can be installed without it`, "pacman-key(8)",
				keys+"private-keys-v1.d/*", keys+"openpgp-revocs.d/*", keys+"secring.gpg", keys+"random_seed",
				keys+"S.*"),
			packageState("pacman", "pacman(8)", pacmanState, pacmanLock, packages.PacmanLocal+"/*"),
		},
	}, holdsInConf{"/etc/pacman.conf", "options", "IgnorePkg"}} // any number of times, see pacman.conf(5)
}

const pacmanLock = "/var/lib/pacman/db.lck"

// Installed reads pacman's local database, which works for an image root and
// needs no command.
func (pacmanManager) Installed(_ context.Context, h *host.Host, names []string) (map[string]string, error) {
	found, provided := map[string]string{}, map[string]string{}
	err := packages.EachPacman(h, func(_, folder string) error {
		text, err := h.Content(path.Join(folder, "desc"))
		d := packages.PacmanFields(string(text))
		if err != nil || len(d["NAME"]) == 0 || len(d["VERSION"]) == 0 {
			return err
		}
		found[d["NAME"][0]] = d["VERSION"][0]
		for _, name := range d["PROVIDES"] {
			name, _, _ = strings.Cut(name, "=")
			provided[name] = d["VERSION"][0]
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the installed packages: %w", err)
	}
	return chosen(names, found, provided), nil
}

// Refresh also upgrades the system: Arch does not support new packages on an
// old system.
func (m pacmanManager) Refresh(ctx context.Context, h *host.Host) error {
	return while("refreshing the package lists and upgrading", m.tool.run(ctx, h, m.refresh[0]))
}

// Pinned refuses: Arch's repositories have only the newest version.
func (pacmanManager) Pinned(name, version string) (string, error) {
	return "", surface.Errorf("pacman cannot install %s %s: a repository has only the newest version; remove the "+
		"package from %s", name, version, surface.Name("package_versions"))
}

// pacmanCache has the downloaded packages.
const pacmanCache = "/var/cache/pacman/pkg"

// Clean empties the cache itself: `pacman -Scc --noconfirm` answers its own
// second question with no and keeps the cache. A mounted cache does not belong
// to the machine and is not in the image.
func (pacmanManager) Clean(_ context.Context, h *host.Host) error {
	foreign, err := h.Files.Foreign(pacmanCache, pacmanCache, true)
	if err == nil && foreign == nil {
		_, err = h.Files.RemoveContents(pacmanCache)
	}
	return while(cleaning, err)
}

var processFile = show.Regexp(`^[0-9]+$`)

// Leftover returns the lock of a killed pacman: the file stays, but no process
// has it open.
func (pacmanManager) Leftover(h *host.Host) ([]string, error) {
	held, err := h.Exists(pacmanLock)
	if err != nil || !held {
		return nil, err
	}
	if !h.IsLive() {
		return []string{pacmanLock}, nil
	}
	processes, err := afero.ReadDir(h.Files, "/proc")
	if err != nil {
		return nil, fmt.Errorf("looking for a running pacman: %w", err)
	}
	for _, p := range processes {
		if !processFile().MatchString(p.Name()) {
			continue
		}
		open, err := afero.ReadDir(h.Files, path.Join("/proc", p.Name(), "fd"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) { // it has ended since
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("looking for a running pacman: %w", err)
		}
		for _, fd := range open {
			target, err := h.Files.ReadlinkIfPossible(path.Join("/proc", p.Name(), "fd", fd.Name()))
			if err == nil && target == pacmanLock {
				return nil, nil
			}
		}
	}
	return []string{pacmanLock}, nil
}

// pacmanLocked matches pacman's message about another running process.
const pacmanLocked = `unable to lock database`

// pacmanState reports the lock of a killed or running pacman, and packages that
// it left half done: their entry is incomplete, or the entry of another version
// still exists.
func pacmanState(d *scrub.Draft) {
	if lock := d.Paths[0]; d.Exists(lock) {
		d.Find(lock, fmt.Sprintf(`pacman was interrupted or is running: if no pacman runs, run "rm %s" and `+
			`"pacman -Syu"`, lock))
	}
	seen := map[string]string{}
	for _, folder := range d.Matching(d.Paths[1]) {
		if st := d.Lstat(folder); st == nil || !st.IsDir() {
			continue
		}
		name, lacks, err := pacmanEntry(d.Host, folder)
		if d.Failed(err) {
			return
		}
		entry := path.Base(folder)
		before, twice := seen[name]
		seen[name] = entry
		switch {
		case lacks != "":
			d.Find(plainName(entry), fmt.Sprintf("pacman left the package half installed, without its %s: "+
				`run "pacman -S --overwrite '*' %s"`, lacks, plainName(name)))
		case twice:
			d.Find(plainName(entry), fmt.Sprintf("pacman also has %s, so an upgrade was interrupted: "+
				`remove the older folder from %s and run "pacman -S %s"`, plainName(before), packages.PacmanLocal,
				plainName(name)))
		}
	}
}

// pacmanEntry returns the name of the package of an entry, and the missing part of the
// entry. Of a package without files, such as Arch's base, pacman keeps no size and an empty
// list of files (libalpm, be_local.c).
func pacmanEntry(h *host.Host, folder string) (name, lacks string, err error) {
	words := strings.Split(path.Base(folder), "-") // name, version, release
	name = strings.Join(words[:max(1, len(words)-2)], "-")
	noFiles := false
	for _, file := range []string{"desc", "files"} {
		text, err := database(h, path.Join(folder, file))
		if err != nil {
			return "", "", err
		}
		there, err := h.Exists(path.Join(folder, file))
		if err != nil {
			return "", "", err
		}
		d := packages.PacmanFields(string(text))
		if !there || len(text) == 0 && !noFiles || file == "desc" && (len(d["NAME"]) == 0 || len(d["VERSION"]) == 0) {
			return name, file, nil
		}
		if file == "desc" {
			name, noFiles = d["NAME"][0], len(d["SIZE"]) == 0
		}
	}
	return name, "", nil
}
