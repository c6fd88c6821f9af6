-- Which dependencies exist because of an ordering key. They are kept when the waiting job ends or is deleted, until the next job of the key
-- has taken them over; this was read from the two bodies before, of which a purge may have deleted one. Null in rows of earlier builds:
-- then the bodies decide (see share_ordering_key). No default, so that no row is written again.
set local role windlass_owner;

alter table windlass.dependency add column is_ordering boolean;
