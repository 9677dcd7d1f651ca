package base

import (
	"context"
	"io"
)

// motoPackages are moto's server and what it lacks to start; motoSuite is the
// first release of Debian that has it.
var motoPackages = []string{"python3-moto", "python3-flask", "python3-flask-cors"}

const motoSuite = "trixie"

// Moto answers the root of a system with moto's server, building it when the
// cache has none (about a minute). No Debian release before trixie has moto, and
// its three hundred packages stay off the host this way. The tree is shared:
// never write into it.
func Moto(ctx context.Context, log io.Writer) (string, error) {
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	d := Debian{Suite: motoSuite, Cache: cache}
	return d.prepare(ctx, recipe{Suite: motoSuite, Variant: "apt", Packages: motoPackages, Excluded: newRecipe(motoSuite).Excluded}, log)
}
