package validate

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Home replaces the ~ at the beginning of paths on the Packer host by the home
// folder of the user who runs Packer. HCL hands a ~ on as it stands, and no
// field means a folder of that name. The field's name is for the error, which
// refuses other people's homes (~name).
func Home(field string, paths ...*string) error {
	var errs []error
	for _, p := range paths {
		first, _, _ := strings.Cut(filepath.ToSlash(*p), "/")
		switch {
		case !strings.HasPrefix(first, "~"):
		case first != "~":
			errs = append(errs, fmt.Errorf("%s: %s begins with %s: only ~/ is replaced by a home folder; write the whole path, or ./%s for a folder of that name", field, *p, first, *p))
		default:
			home, err := os.UserHomeDir()
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: finding the home folder for %s: %w", field, *p, err))
				continue
			}
			*p = filepath.Join(home, (*p)[1:])
		}
	}
	return errors.Join(errs...)
}
