# The Atlas CLI (community build) and runlane's own runner apply one directory and
# keep one ledger; they exclude each other and can take turns on a database.
#
#   atlas migrate apply  --env deploy --var url="$DATABASE_URL"
#   atlas migrate status --env deploy --var url="$DATABASE_URL"
#   atlas migrate lint   --env local  --var url="$DATABASE_URL" --var dev="$SCRATCH_URL" --latest 1
#
# The CLI accepts some histories that the runner refuses (a file that was edited and
# rehashed, a database that is newer): `runlane migrate verify` is the stricter check.
# New files are planned by `make migration name=…`, which reads ent/schema; there is no
# `src` here, so that `atlas migrate diff` cannot plan from anything else.

variable "url" {
  type = string
}

variable "schema" {
  type    = string
  default = "runlane"
}

# A database that the CLI may empty. It must have no search_path: with one, the CLI
# leaves sequences and functions behind and fails the second time.
variable "dev" {
  type    = string
  default = "postgres://localhost:5432/runlane_dev?sslmode=disable"
}

locals {
  # The files name no schema. Without a search path the CLI would put its ledger into
  # a schema of its own, where nothing else looks for it.
  target = urlqueryset(var.url, "search_path", var.schema)
}

env "local" {
  url = local.target
  dev = var.dev
  migration {
    dir          = "file://migrations"
    exec_order   = LINEAR
    lock_timeout = "10s"
  }
}

# One transaction over all files is not a setting of this file: it is
# `--tx-mode all` on the command line. docs/deploy.md says when it may be given.
env "deploy" {
  url = local.target
  migration {
    dir          = "file://migrations"
    exec_order   = LINEAR
    lock_timeout = "10s"
  }
}
