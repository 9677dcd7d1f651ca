package preflight

import (
	"errors"

	"github.com/eksnode/packer-plugin-eksnode/internal/awsapi"
)

// checkSTS reports what STS itself answered. No API returns the account's setting,
// and STS may answer some calls in a region in which it is off.
func checkSTS(f *facts) result {
	var api *awsapi.APIError
	switch {
	case errors.As(f.account.err, &api) && api.Code == "RegionDisabledException":
		return bad(f.target.command(""), "STS is off for your account in %s: turn it on in the IAM console, under Account settings, because no command does; then run this preflight again (%s)",
			f.region(), api.Said)
	case f.account.err != nil:
		return f.unseen(f.account.err)
	}
	return good("STS in %s answers the account %s", f.region(), f.account.value)
}
