package distros

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/spf13/afero"

	"github.com/eksnode/packer-plugin-eksnode/host"
	"github.com/eksnode/packer-plugin-eksnode/plan"
)

// pacmanState reports the lock of a killed or running pacman, and packages that
// it left half done: their entry is incomplete, or the entry of another version
// still exists.
func pacmanState(_ context.Context, h *host.Host) (plan.Answer, error) {
	var answer plan.Answer
	locked, err := h.Exists(pacmanLock)
	if err != nil {
		return plan.Answer{}, fmt.Errorf("reading the state of packages: %w", err)
	}
	if locked {
		answer.Find(pacmanLock, fmt.Sprintf(`pacman was interrupted or is running: if no pacman runs, run "rm %s" and "pacman -Syu"`, pacmanLock))
	}
	entries, err := afero.ReadDir(h.Files, pacmanLocal)
	if errors.Is(err, fs.ErrNotExist) {
		return answer, nil
	}
	if err != nil {
		return plan.Answer{}, fmt.Errorf("reading the state of packages: %w", err)
	}
	seen := map[string]string{}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		name, lacks, err := pacmanEntry(h, path.Join(pacmanLocal, e.Name()))
		if err != nil {
			return plan.Answer{}, err
		}
		before, twice := seen[name]
		seen[name] = e.Name()
		switch {
		case lacks != "":
			answer.Find(plainName(e.Name()), fmt.Sprintf(`pacman left the package half installed, without its %s: run "pacman -S --overwrite '*' %s"`, lacks, plainName(name)))
		case twice:
			answer.Find(plainName(e.Name()), fmt.Sprintf(`pacman also has %s, so an upgrade was interrupted: remove the older folder from %s and run "pacman -S %s"`, plainName(before), pacmanLocal, plainName(name)))
		}
	}
	return answer, nil
}

// pacmanEntry returns the name of the package of an entry, and the missing
// parts of the entry.
func pacmanEntry(h *host.Host, folder string) (name, lacks string, err error) {
	words := strings.Split(path.Base(folder), "-") // name, version, release
	name = strings.Join(words[:max(1, len(words)-2)], "-")
	for _, file := range []string{"desc", "files"} {
		text, err := database(h, path.Join(folder, file))
		if err != nil {
			return "", "", err
		}
		d := pacmanDesc(string(text))
		if len(text) == 0 || file == "desc" && (len(d["NAME"]) == 0 || len(d["VERSION"]) == 0) {
			return name, file, nil
		}
		if file == "desc" {
			name = d["NAME"][0]
		}
	}
	return name, "", nil
}
