-- Create "runlane_after" table
CREATE TABLE "runlane_after" (
  "id" bigint NOT NULL,
  PRIMARY KEY ("id")
);
