package base

import (
	"context"
	"io"
)

// motoPackages are moto's server, the packages that it needs to start, and the
// AWS CLI. motoSuite is the first release of Debian that has moto.
var motoPackages = []string{"python3-moto", "python3-flask", "python3-flask-cors", "awscli"}

const motoSuite = "trixie"

// Moto returns the root of a system with moto's server and the AWS CLI. It
// builds the root if the cache has none (about a minute). Debian releases
// before trixie have no moto, and a separate root keeps its three hundred
// packages off the host. The tree is shared: never write into it.
func Moto(ctx context.Context, log io.Writer) (string, error) {
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	d := Debian{Suite: motoSuite, Cache: cache}
	return d.prepare(ctx, recipe{Suite: motoSuite, Variant: "apt", Packages: motoPackages, Excluded: newRecipe(motoSuite).Excluded}, log)
}
